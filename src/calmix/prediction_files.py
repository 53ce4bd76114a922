"""Prediction files as plain arrays: `.npz`, `.npy`, `.csv`, `.parquet`. Nothing is unpickled."""

import csv
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from calmix.errors import InputError

NumpyArray = np.ndarray[Any, Any]
SPECIAL = ("label", "member", "id", "group")
BROKEN = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
    csv.Error,
    tokenize.TokenError,
    NotImplementedError,
    RuntimeError,
)


@dataclass(frozen=True)
class Arrays:
    """What a file holds: `logits` are logits or, where `values` says so, probabilities."""

    values: str
    logits: NumpyArray
    labels: NumpyArray
    ids: NumpyArray | None = None
    groups: NumpyArray | None = None


def read_arrays(path: Path, values: str | None) -> Arrays:
    """Read `path` by its ending; `values` is what the caller says the numbers are."""
    readers = {".npz": _read_npz, ".npy": _read_npy, ".csv": _read_csv, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise InputError(
            f"{path}: predictions are read from {', '.join(readers)}; this ends in {path.suffix!r}"
        )
    if not path.is_file():
        raise InputError(f"{path}: " + ("is no file" if path.exists() else "no such file"))
    try:
        return readers[path.suffix](path, values)
    except InputError:
        raise
    except BROKEN as error:
        raise InputError(
            f"{path}: cannot be read as {path.suffix}: {error or type(error).__name__}"
        ) from None


def _said(path: Path, found: str | None, values: str | None, where: str) -> str:
    if found and values and found != values:
        raise InputError(f"{path}: {where} says {found}, the call says {values}")
    if said := found or values:
        return said
    raise InputError(
        f'{path}: say whether the numbers are "logits" or "probs" (values=, or --values): {where} does not'
    )


def _read_npz(path: Path, values: str | None) -> Arrays:
    with zipfile.ZipFile(path) as archive:
        names = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
        kinds = [kind for kind in ("logits", "probs") if kind in names]
        if len(kinds) != 1 or "labels" not in names:
            held = f"it holds {', '.join(map(repr, names)) or 'no array'}"
            raise InputError(f'{path}: needs an array "labels" and either "logits" or "probs"; {held}')

        def array(name: str) -> NumpyArray | None:
            return _read_member(archive, name) if name in names else None

        logits, labels = array(kinds[0]), array("labels")
        assert logits is not None
        assert labels is not None
        said = _said(path, kinds[0], values, "the array's name")
        return Arrays(said, logits, labels, array("ids"), array("groups"))


def _read_member(archive: zipfile.ZipFile, name: str) -> NumpyArray:
    """One array of an archive, read only if its header fits both its size and this machine."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as file:
        header = _header_bytes(file, f"{archive.filename}: {name!r}")
    if header > info.file_size:
        raise InputError(f"{archive.filename}: {name!r} is cut short: {info.file_size:,} bytes of {header:,}")
    if info.file_size > _memory():
        raise InputError(
            f"{archive.filename}: {name!r} needs {info.file_size:,} bytes, more than this machine has"
        )
    with archive.open(info) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _header_bytes(file: IO[bytes], source: str) -> int:
    """The bytes that the header promises; the data themselves are not read."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise InputError(f"{source} holds Python objects, which would have to be unpickled")
    return int(np.prod(shape, dtype=object)) * dtype.itemsize


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _read_npy(path: Path, values: str | None) -> Arrays:
    kinds = [kind for kind in ("logits", "probs") if kind in path.stem]
    found = kinds[0] if len(kinds) == 1 else None
    labels = path.with_name((path.name.replace(found, "labels")) if found else "labels.npy")
    if not labels.is_file():
        raise InputError(f"{path}: the labels belong beside it in {labels.name}, which is not there")
    said = _said(path, found, values, "the file's name")
    return Arrays(said, *(np.load(p, mmap_mode="c", allow_pickle=False) for p in (path, labels)))


def _read_csv(path: Path, values: str | None) -> Arrays:
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        names = next(rows, [])
        classes = _class_columns(path, names)
        special = {name: names.index(name) for name in SPECIAL if name in names}
        columns = [names.index(name) for name in classes]
        kept: dict[str, list[str]] = {name: [] for name in special}
        blocks: list[NumpyArray] = []
        block: list[list[str]] = []
        for number, row in enumerate(rows, start=2):
            if len(row) != len(names):
                raise InputError(
                    f"{path}, line {number}: {len(row)} columns where the header has {len(names)}"
                )
            block.append([row[i] for i in columns])
            for name, i in special.items():
                kept[name].append(row[i])
            if len(block) == 4096:
                blocks.append(_numbers(path, block, classes, first=number - 4095))
                block = []
        if block:
            blocks.append(_numbers(path, block, classes, first=number - len(block) + 1))
    if not blocks:
        raise InputError(f"{path}: no row below the header")
    table = np.concatenate(blocks)
    return _arrange(path, values, classes, table, {name: np.array(column) for name, column in kept.items()})


def _numbers(path: Path, block: list[list[str]], classes: list[str], first: int) -> NumpyArray:
    try:
        return np.array(block, dtype=np.float64)
    except ValueError:
        for line, row in enumerate(block, start=first):
            for name, text in zip(classes, row, strict=True):
                try:
                    float(text)
                except ValueError:
                    raise InputError(
                        f"{path}, line {line}: {text!r} in column {name!r} is no number"
                    ) from None
        raise


def _read_parquet(path: Path, values: str | None) -> Arrays:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"{path}: reading Parquet needs pyarrow: pip install 'calmix[parquet]'") from None
    table = parquet.read_table(path)
    classes = _class_columns(path, table.column_names)
    special = {name: table.column(name) for name in SPECIAL if name in table.column_names}
    for name in classes + list(special):
        if table.column(name).null_count:
            raise InputError(f"{path}: column {name!r} has empty values")
    numbers = np.stack([np.asarray(table.column(name).to_numpy()) for name in classes], axis=1)
    if not np.issubdtype(numbers.dtype, np.number):
        raise InputError(f"{path}: the columns of the classes must be numbers, got {numbers.dtype}")
    kept = {name: np.array([str(v) for v in column.to_pylist()]) for name, column in special.items()}
    return _arrange(path, values, classes, numbers, kept)


def _class_columns(path: Path, names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}: two columns are called {double!r}")
    if "label" not in names:
        raise InputError(
            f"{path}: needs a column 'label'; the columns are {', '.join(map(repr, names[:12]))}"
        )
    classes = [name for name in names if name not in SPECIAL]
    if len(classes) < 2:
        raise InputError(
            f"{path}: needs a column for each class beside {', '.join(SPECIAL)}; found {classes}"
        )
    if all(name.isdecimal() for name in classes):
        if sorted(map(int, classes)) != list(range(len(classes))):
            raise InputError(
                f"{path}: columns named by numbers must count the classes from 0; found {classes[:12]}"
            )
        classes.sort(key=int)
    return classes


def _arrange(
    path: Path, values: str | None, classes: list[str], table: NumpyArray, kept: dict[str, NumpyArray]
) -> Arrays:
    """Rows of (member, example) as (M, N, C), every member's examples in the order of the first one's."""
    values = _said(path, None, values, "a table")
    labels = _label_numbers(path, kept["label"], classes)
    if "member" not in kept:
        return Arrays(values, table, labels, kept.get("id"), kept.get("group"))
    rows = _rows_of_members(path, kept["member"], kept.get("id"))
    for name, column in (("label", labels), ("group", kept.get("group"))):
        if column is not None and (differs := (column[rows] != column[rows[0]]).any(0)).any():
            raise InputError(f"{path}: the members disagree on the {name} of example {int(differs.argmax())}")
    ids, groups = (kept[name][rows[0]] if name in kept else None for name in ("id", "group"))
    return Arrays(values, table[rows], labels[rows[0]], ids, groups)


def _rows_of_members(path: Path, member: NumpyArray, ids: NumpyArray | None) -> NumpyArray:
    """Row numbers (M, N) in the table."""
    rows = [np.flatnonzero(member == name) for name in dict.fromkeys(member.tolist())]
    if len({len(r) for r in rows}) > 1:
        counts = ", ".join(f"{member[r[0]]}: {len(r)}" for r in rows[:8])
        raise InputError(f"{path}: every member needs a row for every example; rows found: {counts}")
    if ids is None:
        return np.stack(rows)
    first = np.argsort(ids[rows[0]], kind="stable")
    back = np.argsort(first)
    matched = [r[np.argsort(ids[r], kind="stable")][back] for r in rows]
    for r in matched:
        if (wrong := ids[r] != ids[matched[0]]).any():
            missing = str(ids[matched[0]][int(wrong.argmax())])
            raise InputError(
                f"{path}: member {member[r[0]]} has no row with the id {missing!r}, or has it twice"
            )
    return np.stack(matched)


def _label_numbers(path: Path, labels: NumpyArray, classes: list[str]) -> NumpyArray:
    """Labels are names of class columns, or else numbers from 0."""
    number = {name: i for i, name in enumerate(classes)}
    texts = labels.tolist()
    if all(text in number for text in texts):
        return np.array([number[text] for text in texts])
    return np.array([_label_number(path, row, text, classes) for row, text in enumerate(texts)])


def _label_number(path: Path, row: int, text: str, classes: Iterable[str]) -> int:
    try:
        return int(text)
    except ValueError:
        names = ", ".join(list(classes)[:12])
        raise InputError(
            f"{path}: label {text!r} of row {row} is neither a number nor a class ({names})"
        ) from None
