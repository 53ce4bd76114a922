"""`.npz` and `.npy` files: arrays by name, read only after their headers were checked."""

import math
import zipfile
from pathlib import Path

import numpy as np

from calmix.errors import InputError
from calmix.files import read_member, read_npy_header
from calmix.prediction_files.contents import Arrays, Columns, NumpyArray, kind_of
from calmix.prediction_files.sources import Source

GROUP = "groups_"  # of the arrays groups_<name>
KINDS = ("logits", "probs")


def read_npz(source: Source, values: str | None, columns: Columns) -> Arrays:
    """Arrays "logits" or "probs"; "labels", "ids", "groups_<name>", "groups" and "classes" are optional."""
    _refuse_table_options(source, columns)
    with source.open() as file, zipfile.ZipFile(file) as archive:
        names = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
        kinds = [kind for kind in KINDS if kind in names]
        if len(kinds) != 1:
            arrays = ", ".join(map(repr, names[:12])) or "none"
            raise InputError(
                f'{source.name}: needs either an array "logits" or one "probs", and "labels" to be judged; '
                f"it has {arrays}"
            )
        kind = kind_of(source.name, kinds[0], values, "the array's name")

        def array(name: str) -> NumpyArray | None:
            return read_member(archive, name, source.name) if name in names else None

        logits = array(kind)
        assert logits is not None
        groups = {name.removeprefix(GROUP): array(name) for name in names if name.startswith(GROUP)}
        if "groups" in names:
            groups.setdefault("group", array("groups"))
        classes = columns.classes
        if classes is None and (stored := array("classes")) is not None:
            if stored.ndim != 1 or stored.dtype.kind not in "USiu":
                raise InputError(f'{source.name}: "classes" must be (C,) strings, got {stored.dtype}')
            classes = tuple(stored.astype(str).tolist())
        present = {name: column for name, column in groups.items() if column is not None}
        _require_groups(source, columns, present)
        return Arrays(kind, logits, array("labels"), array("ids"), present, classes)


def read_npy(source: Source, values: str | None, columns: Columns) -> Arrays:
    """The values; the labels are in another file of the same folder, if there are any."""
    _refuse_table_options(source, columns)
    _require_groups(source, columns, {})
    if source.path is None:
        raise InputError(f"{source.name}: a .npy file must be a file; from standard input, give npz or csv")
    implied = named_kind(source.path)
    kind = kind_of(source.name, implied, values, "the file's name")
    labels = labels_path(source.path)
    found = _map(labels) if labels.is_file() and labels != source.path else None
    return Arrays(kind, _map(source.path), found, classes=columns.classes)


def _map(path: Path) -> NumpyArray:
    with open(path, "rb") as file:
        shape, dtype = read_npy_header(file)
        begun = file.tell()
    size, there = math.prod(shape) * dtype.itemsize, path.stat().st_size - begun
    if size > there:
        raise InputError(f"{path}: truncated: {there:,} of {size:,} bytes")
    # An empty file cannot be mapped; the shape is refused later.
    return np.asarray(np.load(path, mmap_mode="c" if size else None, allow_pickle=False))


def named_kind(path: Path) -> str | None:
    """What a file's name says of its values."""
    kinds = [kind for kind in KINDS if kind in path.stem]
    return kinds[0] if len(kinds) == 1 else None


def labels_path(path: Path) -> Path:
    """The labels' file: `test_labels.npy` for `test_logits.npy`, `labels.npy` for any other name."""
    kind = named_kind(path)
    return path.with_name(path.name.replace(kind, "labels") if kind else "labels.npy")


def _refuse_table_options(source: Source, columns: Columns) -> None:
    if given := columns.given("label", "id", "member", "ignore", "positive"):
        raise InputError(f"{source.name}: {given[0]} names a column of a table, and this file holds arrays")


def _require_groups(source: Source, columns: Columns, groups: dict[str, NumpyArray]) -> None:
    for name in columns.group:
        if name not in groups:
            there = ", ".join(map(repr, groups)) or "none"
            raise InputError(
                f"{source.name}: there is no group {name!r}; the groups are {there} (arrays {GROUP}<name>)"
            )
