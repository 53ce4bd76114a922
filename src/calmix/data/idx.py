"""MNIST and Fashion-MNIST as tensors."""

from pathlib import Path

import torch

from calmix.data.dataset import DataSet, Part
from calmix.sources.idx import Bytes, read_parts

DIGITS = tuple("0123456789")
CLOTHES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


def load_mnist(folder: Path) -> DataSet:
    """Handwritten digits, grey, 28 x 28: 60,000 and 10,000 images in the official files."""
    return _load("mnist", DIGITS, folder)


def load_fashion_mnist(folder: Path) -> DataSet:
    """Articles of clothing, in files with the names and layout of MNIST's."""
    return _load("fashion-mnist", CLOTHES, folder)


def _load(name: str, classes: tuple[str, ...], folder: Path) -> DataSet:
    train, test = read_parts(folder)
    return DataSet(name, classes, _part(*train), _part(*test))


def _part(images: Bytes, labels: Bytes) -> Part:
    return Part(torch.from_numpy(images)[..., None], torch.from_numpy(labels).long())
