"""The data sets by name: where they are looked for, and how to get them."""

import os
from pathlib import Path

from calmix.data.cifar import CIFAR10, CIFAR100, load_cifar10, load_cifar100
from calmix.data.clusters import load_clusters
from calmix.data.dataset import DataSet
from calmix.data.digits import load_digits
from calmix.errors import InputError

NAMES = ("digits", "clusters", "cifar10", "cifar100", "fashion-mnist", "mnist", "folder")


def default_root() -> Path:
    """The folder of data sets: `CALMIX_DATA` where it is set, else `calmix` in the user's cache."""
    if named := os.environ.get("CALMIX_DATA"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "calmix"


def load(name: str, root: str | os.PathLike[str] | None = None) -> DataSet:
    """The data set `name`, one of `NAMES`, read from `root` or the default folder, never from the network.

    >>> load("digits").test.labels[:5]
    tensor([...])
    """
    top = default_root() if root is None else Path(root)
    if name == "digits":
        return load_digits()
    if name == "clusters":
        return load_clusters()
    if name == "cifar10":
        return load_cifar10(top / CIFAR10.folder)
    if name == "cifar100":
        return load_cifar100(top / CIFAR100.folder)
    raise InputError(f"name: there is no data set {name!r}; there are {', '.join(NAMES)}")
