"""CIFAR-10 and CIFAR-100 as tensors."""

from pathlib import Path

import numpy as np
import torch

from calmix.data.dataset import DataSet, Part
from calmix.errors import InputError
from calmix.sources import cifar
from calmix.sources.cifar import Layout, check_sizes


def load_cifar10(folder: Path) -> DataSet:
    """50,000 and 10,000 colour images of 32 x 32 in ten classes."""
    return _load(folder, cifar.CIFAR10)


def load_cifar100(folder: Path) -> DataSet:
    """As many in a hundred classes, whose twenty coarse labels are the groups."""
    return _load(folder, cifar.CIFAR100)


def _load(folder: Path, layout: Layout) -> DataSet:
    check_sizes(folder, layout)
    train, test = (_read(folder, layout, files) for files in (layout.train, layout.test))
    *groups, classes = layout.names
    return DataSet(f"cifar{len(classes)}", classes, train, test, groups[0] if groups else None)


def _read(folder: Path, layout: Layout, files: dict[str, int]) -> Part:
    """All files read into one array; the NHWC images are a view of it."""
    records = np.empty((sum(files.values()), layout.record), dtype=np.uint8)
    end = 0
    for file, count in files.items():
        begin, end = end, end + count
        with open(folder / file, "rb") as opened:
            size = opened.readinto(records[begin:end])  # type: ignore[arg-type]
        if size != count * layout.record:
            raise InputError(f"{folder / file}: expected {count * layout.record:,} bytes, got {size:,}")
        for column, names in enumerate(layout.names):
            values = records[begin:end, column]
            if (largest := int(values.max())) >= len(names):
                image, last = int(values.argmax()), len(names) - 1
                raise InputError(
                    f"{folder / file}: the label of image {image} must be in 0..{last}, got {largest}"
                )
    width = len(layout.names)
    *groups, labels = torch.from_numpy(records[:, :width]).long().T.contiguous()
    images = torch.from_numpy(records)[:, width:].view(-1, 3, 32, 32).permute(0, 2, 3, 1)
    return Part(images, labels, groups[0] if groups else None)
