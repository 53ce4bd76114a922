"""IDX files, gzipped or not: those of MNIST and Fashion-MNIST."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from calmix.errors import InputError

Bytes: TypeAlias = npt.NDArray[np.uint8]
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def read_parts(folder: Path) -> tuple[tuple[Bytes, Bytes], tuple[Bytes, Bytes]]:
    """Images (N, 28, 28) and labels (N,) to train on, and those to test on."""
    paths = []
    for name in FILES:
        files = [path for path in (folder / f"{name}.gz", folder / name) if path.is_file()]
        if not files:
            raise InputError(f"{folder / name} and {name}.gz: both are missing")
        paths.append(files[0])  # gzipped rather than plain: it has a checksum
    return _read_part(*paths[:2]), _read_part(*paths[2:])


def read_idx(path: Path, axes: int) -> Bytes:
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
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)


def _read_part(images_path: Path, labels_path: Path) -> tuple[Bytes, Bytes]:
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise InputError(f"{labels_path}: {len(labels):,} labels for {len(images):,} images in {images_path}")
    if (largest := int(labels.max())) > 9:
        image = int(labels.argmax())
        raise InputError(f"{labels_path}: the label of image {image} must be in 0..9, got {largest}")
    return images, labels
