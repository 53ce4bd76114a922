"""Data sets by name: where they are searched for, whether their files are valid, how to get them."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from calmix.errors import InputError, one_of
from calmix.locks import lock
from calmix.sources import idx
from calmix.sources.archives import Progress, Remote, fetch, unpack
from calmix.sources.cifar import CIFAR10, CIFAR100, check_sizes
from calmix.sources.folders import class_names

Root: TypeAlias = str | os.PathLike[str] | None

BUILT_IN = ("digits", "clusters")
# Relative to the root, in order; downloads go to the first. Absolute paths are those of Debian's packages.
SEARCH_PATHS = {
    "cifar10": (CIFAR10.folder, "."),
    "cifar100": (CIFAR100.folder, "."),
    "fashion-mnist": ("fashion-mnist", "FashionMNIST/raw", ".", "/usr/share/datasets/fashion-mnist"),
    "mnist": ("mnist", "MNIST/raw", ".", "/usr/share/datasets/mnist"),
    "folder": (".", "folder", "imagenet"),
}
NAMES = (*BUILT_IN, *SEARCH_PATHS)
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
    """One data set of the inventory; `folder` is None if it is missing or generated."""

    name: str
    state: Literal["present", "missing", "damaged"]
    folder: Path | None = None
    searched: tuple[Path, ...] = ()
    size: int | None = None
    problem: str = ""
    remedy: str = ""


def default_root() -> Path:
    """The folder of data sets: `CALMIX_DATA` if it is set, else `calmix` in the user's cache."""
    if folder := os.environ.get("CALMIX_DATA"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "calmix"


def find(name: str, root: Root = None) -> Path:
    """The folder that has a data set's files, in `root` or `default_root()`; never from the network."""
    paths = _search_paths(name, root)
    folder = _find(name, paths)
    if folder is None:
        raise InputError(
            f"{name} was not found in {', '.join(map(str, paths))}; {_remedy(name, paths)}, "
            "or set CALMIX_DATA to the folder that has it"
        )
    return folder


def inventory(root: Root = None) -> list[Entry]:
    """State of every data set, where it was searched for, and how to get it; without network access."""
    return [look_up(name, root) for name in NAMES]


def look_up(name: str, root: Root = None) -> Entry:
    """The inventory's entry for one data set. Of CIFAR's files the sizes are checked; IDX files are read."""
    one_of("data set", name, NAMES)
    if name in BUILT_IN:
        return Entry(name, "present")
    paths = _search_paths(name, root)
    folder = _find(name, paths)
    remedy = _remedy(name, paths)
    if folder is None:
        return Entry(name, "missing", searched=paths, remedy=remedy)
    files = [folder / file for file in FILES[name]]
    size = None if name == "folder" else sum(file.stat().st_size for file in files if file.is_file())
    try:
        if name in ("cifar10", "cifar100"):
            check_sizes(folder, CIFAR10 if name == "cifar10" else CIFAR100)
        elif name == "folder":
            class_names(folder / "train"), class_names(folder / "val")
        else:
            idx.read_parts(folder)
    except InputError as error:
        return Entry(name, "damaged", folder, paths, size, str(error), remedy)
    return Entry(name, "present", folder, paths, size)


def download(name: str, root: Root = None, *, progress: Progress | None = None) -> Path:
    """Download a data set from its publisher unless valid files are present; returns its folder.

    An interrupted download is resumed, and a valid archive that is already in `root` is used.
    """
    entry = look_up(name, root)
    if name not in REMOTES:
        raise InputError(f"{name} cannot be downloaded; {entry.remedy or 'it is built in'}")
    if entry.state == "present" and entry.folder is not None:
        return entry.folder
    target = entry.searched[0]
    if name in ("cifar10", "cifar100"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock(target.parent):  # who holds it removes what a killed process has unpacked
            archive = fetch(REMOTES[name][0], target.parent, progress=progress)
            return unpack(archive, target.name)
    for remote in REMOTES[name]:
        fetch(remote, target, progress=progress)
    return target


def _search_paths(name: str, root: Root) -> tuple[Path, ...]:
    """Where a data set is searched for; not in another one's folder, as IDX sets share file names."""
    top = default_root() if root is None else Path(root)
    another = top.name in NAMES and top.name != name
    return tuple(top / path for path in SEARCH_PATHS[name] if not (path == "." and another))


def _find(name: str, paths: tuple[Path, ...]) -> Path | None:
    """The first path with any of the data set's files."""
    return next((path for path in paths if any((path / file).exists() for file in FILES[name])), None)


def _remedy(name: str, paths: tuple[Path, ...]) -> str:
    if name == "folder":
        return f"put images into {paths[0]}/train/<class>/*.jpg and {paths[0]}/val/<class>/*.jpg"
    return f"download it with calmix.data.download({name!r}) or the command `calmix data`"
