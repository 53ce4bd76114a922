"""Data sets by name."""

from collections.abc import Callable
from pathlib import Path

from calmix.data.cifar import load_cifar10, load_cifar100
from calmix.data.clusters import load_clusters
from calmix.data.dataset import DataSet
from calmix.data.digits import load_digits
from calmix.data.folder import load_folder
from calmix.data.idx import load_fashion_mnist, load_mnist
from calmix.errors import one_of
from calmix.sources.catalogue import NAMES, Root, find

BUILT_IN: dict[str, Callable[[], DataSet]] = {"digits": load_digits, "clusters": load_clusters}
FROM_FILES: dict[str, Callable[[Path], DataSet]] = {
    "cifar10": load_cifar10,
    "cifar100": load_cifar100,
    "fashion-mnist": load_fashion_mnist,
    "mnist": load_mnist,
    "folder": load_folder,
}


def load(name: str, root: Root = None) -> DataSet:
    """The data set `name`, one of `NAMES`, from `root` or `default_root()`, never from the network.

    >>> load("digits").classes
    ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
    """
    one_of("data set", name, NAMES)
    return BUILT_IN[name]() if name in BUILT_IN else FROM_FILES[name](find(name, root))
