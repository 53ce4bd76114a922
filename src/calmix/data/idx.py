"""MNIST and Fashion-MNIST: IDX files, gzipped or not."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor

from calmix.data.dataset import DataSet, Part
from calmix.errors import InputError

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
DIGITS = tuple("0123456789")
CLOTHES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


def load_mnist(folder: Path) -> DataSet:
    """Handwritten digits, grey, 28 x 28: 60,000 and 10,000 of them in the official files."""
    return DataSet("mnist", DIGITS, *_parts(folder))


def load_fashion_mnist(folder: Path) -> DataSet:
    """Articles of clothing, in files of the same names and layout as MNIST's."""
    return DataSet("fashion-mnist", CLOTHES, *_parts(folder))


def find_file(folder: Path, name: str) -> Path | None:
    """The file called `name`, gzipped (which carries a checksum) or plain."""
    return next((path for path in (folder / f"{name}.gz", folder / name) if path.is_file()), None)


def read_idx(path: Path, axes: int) -> Tensor:
    """An IDX file of unsigned bytes with that many axes, as uint8.

    The file begins with two zero bytes, 8 for unsigned bytes and the number of axes; then come the length of
    each axis, in four bytes with the highest first, and the values in row-major order.
    """
    head = 4 + 4 * axes
    content = bytearray()
    found, expected, broken = 0, head, ""
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        try:
            content += file.read(head)
            found = len(content)
            if found == head:
                magic, *shape = struct.unpack(f">{1 + axes}I", content)
                if magic != 0x0800 + axes:
                    raise InputError(f"{path}: magic number {magic} found, {0x0800 + axes} expected")
                expected += math.prod(shape)
                while block := file.read1(1 << 20):  # read() would lose what comes before a break
                    found += len(block)
                    if found <= expected:  # what is too much is counted, not kept
                        content += block
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            broken = f" ({error})"
    if found != expected or broken:
        unpacked = " unpacked" if path.suffix == ".gz" else ""
        raise InputError(f"{path}: {found:,} bytes found{unpacked}, {expected:,} expected{broken}")
    if not math.prod(shape):
        raise InputError(f"{path}: empty, of shape {tuple(shape)}")
    return torch.frombuffer(content, dtype=torch.uint8, offset=head).view(shape)


def _parts(folder: Path) -> tuple[Part, Part]:
    paths = []
    for name in FILES:
        path = find_file(folder, name)
        if path is None:
            raise InputError(f"{folder / name}: missing, and so is {name}.gz")
        paths.append(path)
    return _part(*paths[:2]), _part(*paths[2:])


def _part(images_path: Path, labels_path: Path) -> Part:
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise InputError(
            f"{labels_path}: {len(labels):,} labels for the {len(images):,} images of {images_path}"
        )
    if (worst := int(labels.max())) > 9:
        raise InputError(f"{labels_path}: label {worst} of image {int(labels.argmax())}; expected 0 to 9")
    return Part(images[..., None], labels.long())
