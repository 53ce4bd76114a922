"""The data sets by name: where they are looked for, whether they are sound, and how to get them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from calmix.data import idx
from calmix.data.archives import Progress, Remote, fetch, unpack
from calmix.data.cifar import CIFAR10, CIFAR100, check_sizes, load_cifar10, load_cifar100
from calmix.data.clusters import load_clusters
from calmix.data.dataset import DataSet
from calmix.data.digits import load_digits
from calmix.data.folder import class_names, load_folder
from calmix.errors import InputError, one_of

NAMES = ("digits", "clusters", "cifar10", "cifar100", "fashion-mnist", "mnist", "folder")

BUILT_IN: dict[str, Callable[[], DataSet]] = {"digits": load_digits, "clusters": load_clusters}
FROM_FILES: dict[str, Callable[[Path], DataSet]] = {
    "cifar10": load_cifar10,
    "cifar100": load_cifar100,
    "fashion-mnist": idx.load_fashion_mnist,
    "mnist": idx.load_mnist,
    "folder": load_folder,
}
# Below the root, in this order; a download goes to the first. Debian's packages have the absolute ones.
PLACES = {
    "cifar10": (CIFAR10.folder, "."),
    "cifar100": (CIFAR100.folder, "."),
    "fashion-mnist": ("fashion-mnist", "FashionMNIST/raw", ".", "/usr/share/datasets/fashion-mnist"),
    "mnist": ("mnist", "MNIST/raw", ".", "/usr/share/datasets/mnist"),
    "folder": (".", "folder", "imagenet"),
}
FILES = {
    "cifar10": (*CIFAR10.train, *CIFAR10.test),
    "cifar100": (*CIFAR100.train, *CIFAR100.test),
    "fashion-mnist": tuple(name + gz for name in idx.FILES for gz in ("", ".gz")),
    "mnist": tuple(name + gz for name in idx.FILES for gz in ("", ".gz")),
    "folder": ("train", "val"),
}
_KRIZ = "https://www.cs.toronto.edu/~kriz"
_FASHION = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
REMOTES = {
    "cifar10": (Remote(f"{_KRIZ}/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170_052_171),),
    "cifar100": (
        Remote(f"{_KRIZ}/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", 168_513_733),
    ),
    "fashion-mnist": (
        Remote(f"{_FASHION}/{idx.FILES[0]}.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
        Remote(f"{_FASHION}/{idx.FILES[1]}.gz", "25c81989df183df01b3e8a0aad5dffbe", 29_515),
        Remote(f"{_FASHION}/{idx.FILES[2]}.gz", "bef4ecab320f06d8554ea6380940ec79", 4_422_102),
        Remote(f"{_FASHION}/{idx.FILES[3]}.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5_148),
    ),
    "mnist": (
        Remote(f"{_MNIST}/{idx.FILES[0]}.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
        Remote(f"{_MNIST}/{idx.FILES[1]}.gz", "d53e105ee54ea40749a09fcbcd1e9432", 28_881),
        Remote(f"{_MNIST}/{idx.FILES[2]}.gz", "9fb629c4189551a2d022fa330f9573f3", 1_648_877),
        Remote(f"{_MNIST}/{idx.FILES[3]}.gz", "ec29112dd5afa0611ce80d1b7f02629c", 4_542),
    ),
}


@dataclass(frozen=True)
class Entry:
    """One set in the inventory; `found` is None for a missing one, and for those that are made, not read."""

    name: str
    state: Literal["present", "missing", "damaged"]
    found: Path | None = None
    looked: tuple[Path, ...] = ()
    size: int | None = None
    problem: str = ""
    remedy: str = ""


def default_root() -> Path:
    """The folder of data sets: `CALMIX_DATA` where it is set, else `calmix` in the user's cache."""
    if named := os.environ.get("CALMIX_DATA"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "calmix"


def load(name: str, root: str | os.PathLike[str] | None = None) -> DataSet:
    """The data set `name`, one of `NAMES`, read from `root` or the default folder, never from the network.

    >>> load("digits").classes
    ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
    """
    _check_name(name)
    if name in BUILT_IN:
        return BUILT_IN[name]()
    places = _places(name, root)
    folder = _find(name, places)
    if folder is None:
        raise InputError(
            f"{name} is not here: looked in {', '.join(map(str, places))}; {_remedy(name, places)}, "
            f"or let CALMIX_DATA name the folder that has it"
        )
    return FROM_FILES[name](folder)


def inventory(root: str | os.PathLike[str] | None = None) -> list[Entry]:
    """What is here, missing or damaged, where it was looked for, and how to get it; asks no network."""
    return [look_up(name, root) for name in NAMES]


def look_up(name: str, root: str | os.PathLike[str] | None = None) -> Entry:
    """The inventory's entry for one set. CIFAR's files are judged by their sizes, IDX files are read."""
    _check_name(name)
    if name in BUILT_IN:
        return Entry(name, "present")
    places = _places(name, root)
    folder = _find(name, places)
    remedy = _remedy(name, places)
    if folder is None:
        return Entry(name, "missing", looked=places, remedy=remedy)
    paths = [folder / file for file in FILES[name]]
    size = None if name == "folder" else sum(path.stat().st_size for path in paths if path.is_file())
    try:
        if name in ("cifar10", "cifar100"):
            check_sizes(folder, CIFAR10 if name == "cifar10" else CIFAR100)
        elif name == "folder":
            class_names(folder / "train"), class_names(folder / "val")
        else:
            FROM_FILES[name](folder)
    except InputError as error:
        return Entry(name, "damaged", folder, places, size, str(error), remedy)
    return Entry(name, "present", folder, places, size)


def download(
    name: str, root: str | os.PathLike[str] | None = None, *, progress: Progress | None = None
) -> Path:
    """Get a set from its publisher unless it is here and sound; returns its folder.

    What an earlier, broken-off call has fetched is used, and so is an archive which somebody put into `root`.
    """
    entry = look_up(name, root)
    if name not in REMOTES:
        raise InputError(f"name: {name} cannot be downloaded; {entry.remedy or 'it is always here'}")
    if entry.state == "present" and entry.found is not None:
        return entry.found
    target = entry.looked[0]
    if name in ("cifar10", "cifar100"):
        archive = fetch(REMOTES[name][0], target.parent, progress=progress)
        return unpack(archive, target.name)
    for remote in REMOTES[name]:
        fetch(remote, target, progress=progress)
    return target


def _check_name(name: str) -> None:
    one_of("data set", name, NAMES)


def _places(name: str, root: str | os.PathLike[str] | None) -> tuple[Path, ...]:
    """Where a set is looked for; not in a root named for another set, since IDX sets share file names."""
    top = default_root() if root is None else Path(root)
    foreign = top.name in NAMES and top.name != name
    return tuple(top / place for place in PLACES[name] if not (place == "." and foreign))


def _find(name: str, places: tuple[Path, ...]) -> Path | None:
    """The first place that has any of the set's files."""
    return next((place for place in places if any((place / file).exists() for file in FILES[name])), None)


def _remedy(name: str, places: tuple[Path, ...]) -> str:
    if name == "folder":
        return f"put images into {places[0]}/train/<class>/*.jpg and {places[0]}/val/<class>/*.jpg"
    return f"`calmix data --download {name}` gets it"
