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
    """Handwritten digits, grey, 28 x 28: 60,000 and 10,000 images in the official files."""
    return DataSet("mnist", DIGITS, *_parts(folder))


def load_fashion_mnist(folder: Path) -> DataSet:
    """Articles of clothing, in files with the names and layout of MNIST's."""
    return DataSet("fashion-mnist", CLOTHES, *_parts(folder))


def read_idx(path: Path, axes: int) -> Tensor:
    """An IDX file of unsigned bytes with `axes` axes, as uint8.

    The file starts with two zero bytes, 8 for unsigned bytes and the number of axes, followed by the length
    of each axis as a big-endian uint32, and the values in row-major order.
    """
    header = 4 + 4 * axes
    content = bytearray()
    size, expected, reason = 0, header, ""
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        try:
            content += file.read(header)
            size = len(content)
            if size == header:
                magic, *shape = struct.unpack(f">{1 + axes}I", content)
                if magic != 0x0800 + axes:
                    raise InputError(f"{path}: expected magic number {0x0800 + axes}, got {magic}")
                expected += math.prod(shape)
                while block := file.read1(1 << 20):  # read() would lose the bytes before an error
                    size += len(block)
                    if size <= expected:  # surplus bytes are counted, not kept
                        content += block
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            reason = f" ({error})"
    if size != expected or reason:
        unpacked = " unpacked" if path.suffix == ".gz" else ""
        raise InputError(f"{path}: expected {expected:,} bytes, got {size:,}{unpacked}{reason}")
    if not math.prod(shape):
        raise InputError(f"{path}: empty, of shape {tuple(shape)}")
    return torch.frombuffer(content, dtype=torch.uint8, offset=header).view(shape)


def _parts(folder: Path) -> tuple[Part, Part]:
    paths = []
    for name in FILES:
        files = [path for path in (folder / f"{name}.gz", folder / name) if path.is_file()]
        if not files:
            raise InputError(f"{folder / name} and {name}.gz: both are missing")
        paths.append(files[0])  # gzipped rather than plain: it has a checksum
    return _part(*paths[:2]), _part(*paths[2:])


def _part(images_path: Path, labels_path: Path) -> Part:
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise InputError(f"{labels_path}: {len(labels):,} labels for {len(images):,} images in {images_path}")
    if (largest := int(labels.max())) > 9:
        image = int(labels.argmax())
        raise InputError(f"{labels_path}: the label of image {image} must be in 0..9, got {largest}")
    return Part(images[..., None], labels.long())
