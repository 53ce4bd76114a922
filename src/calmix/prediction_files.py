"""Prediction files as arrays: `.npz`, `.npy`, `.csv`, `.parquet`. Nothing is unpickled."""

import contextlib
import csv
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calmix.errors import InputError
from calmix.files import read_npy_header

NumpyArray = np.ndarray[Any, Any]
NON_CLASS_COLUMNS = ("label", "member", "id", "group")
READ_ERRORS = (
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
    """The content of a file; `values` is "logits" or "probs", the meaning of the array `logits`."""

    values: str
    logits: NumpyArray
    labels: NumpyArray
    ids: NumpyArray | None = None
    groups: NumpyArray | None = None


def read_arrays(path: Path, values: str | None) -> Arrays:
    """Read `path` by its suffix; `values` is "logits", "probs" or None to take it from the file."""
    readers = {".npz": _read_npz, ".npy": _read_npy, ".csv": _read_csv, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise InputError(
            f"{path}: the suffix of predictions must be one of {', '.join(readers)}, got {path.suffix!r}"
        )
    if not path.is_file():
        raise InputError(f"{path}: " + ("not a file" if path.exists() else "no such file"))
    try:
        return readers[path.suffix](path, values)
    except InputError:
        raise
    except READ_ERRORS as error:
        raise InputError(
            f"{path}: cannot be read as {path.suffix}: {error or type(error).__name__}"
        ) from None


def _kind(path: Path, named: str | None, values: str | None, source: str) -> str:
    """Whether the values are "logits" or "probs", by the name of the array or file or else by `values`."""
    if named and values and named != values:
        raise InputError(f"{path}: values is {values!r}, but {source} implies {named!r}")
    if kind := named or values:
        return kind
    raise InputError(f'{path}: values must be "logits" or "probs": {source} implies neither')


def _read_npz(path: Path, values: str | None) -> Arrays:
    with zipfile.ZipFile(path) as archive:
        names = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
        kinds = [kind for kind in ("logits", "probs") if kind in names]
        if len(kinds) != 1 or "labels" not in names:
            arrays = ", ".join(map(repr, names)) or "none"
            raise InputError(f'{path}: needs arrays "labels" and either "logits" or "probs"; it has {arrays}')

        def array(name: str) -> NumpyArray | None:
            return _read_member(archive, name) if name in names else None

        logits, labels = array(kinds[0]), array("labels")
        assert logits is not None
        assert labels is not None
        kind = _kind(path, kinds[0], values, "the array's name")
        return Arrays(kind, logits, labels, array("ids"), array("groups"))


def _read_member(archive: zipfile.ZipFile, name: str) -> NumpyArray:
    """One array of an archive; not read if its header promises more than the file or the memory holds."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as file:
        shape, dtype = read_npy_header(file)
    size = math.prod(shape) * dtype.itemsize
    if size > info.file_size:
        raise InputError(f"{archive.filename}: {name!r} is truncated: {info.file_size:,} of {size:,} bytes")
    if info.file_size > _memory():
        raise InputError(
            f"{archive.filename}: {name!r} needs {info.file_size:,} bytes, more than this machine has"
        )
    with archive.open(info) as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _memory() -> float:
    """Physical memory in bytes; infinite if unknown, as on Windows, which has no `os.sysconf`."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        if (pages := os.sysconf("SC_PHYS_PAGES")) > 0:
            return pages * os.sysconf("SC_PAGE_SIZE")
    return math.inf


def _read_npy(path: Path, values: str | None) -> Arrays:
    kinds = [kind for kind in ("logits", "probs") if kind in path.stem]
    named = kinds[0] if len(kinds) == 1 else None
    labels = path.with_name((path.name.replace(named, "labels")) if named else "labels.npy")
    if not labels.is_file():
        raise InputError(f"{path}: needs the labels in {labels}, which does not exist")
    kind = _kind(path, named, values, "the file's name")
    return Arrays(kind, *(np.load(p, mmap_mode="c", allow_pickle=False) for p in (path, labels)))


def _read_csv(path: Path, values: str | None) -> Arrays:
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        names = next(rows, [])
        classes = _class_columns(path, names)
        others = {name: names.index(name) for name in NON_CLASS_COLUMNS if name in names}
        columns = [names.index(name) for name in classes]
        texts: dict[str, list[str]] = {name: [] for name in others}
        blocks: list[NumpyArray] = []
        block: list[list[str]] = []
        for number, row in enumerate(rows, start=2):
            if len(row) != len(names):
                raise InputError(
                    f"{path}, line {number}: {len(row)} columns where the header has {len(names)}"
                )
            block.append([row[i] for i in columns])
            for name, i in others.items():
                texts[name].append(row[i])
            if len(block) == 4096:
                blocks.append(_numbers(path, block, classes, first=number - 4095))
                block = []
        if block:
            blocks.append(_numbers(path, block, classes, first=number - len(block) + 1))
    if not blocks:
        raise InputError(f"{path}: no rows after the header")
    table = np.concatenate(blocks)
    return _arrange(path, values, classes, table, {name: np.array(column) for name, column in texts.items()})


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
                        f"{path}, line {line}: {text!r} in column {name!r} is not a number"
                    ) from None
        raise


def _read_parquet(path: Path, values: str | None) -> Arrays:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"{path}: reading Parquet needs pyarrow: pip install 'calmix[parquet]'") from None
    table = parquet.read_table(path)
    classes = _class_columns(path, table.column_names)
    others = {name: table.column(name) for name in NON_CLASS_COLUMNS if name in table.column_names}
    for name in classes + list(others):
        if table.column(name).null_count:
            raise InputError(f"{path}: column {name!r} has empty values")
    numbers = np.stack([np.asarray(table.column(name).to_numpy()) for name in classes], axis=1)
    if not np.issubdtype(numbers.dtype, np.number):
        raise InputError(f"{path}: class columns must be numbers, got {numbers.dtype}")
    texts = {name: np.array([str(v) for v in column.to_pylist()]) for name, column in others.items()}
    return _arrange(path, values, classes, numbers, texts)


def _class_columns(path: Path, names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}: two columns are named {duplicate!r}")
    if "label" not in names:
        raise InputError(
            f"{path}: needs a column 'label'; the columns are {', '.join(map(repr, names[:12]))}"
        )
    classes = [name for name in names if name not in NON_CLASS_COLUMNS]
    if len(classes) < 2:
        raise InputError(
            f"{path}: needs one column per class besides {', '.join(NON_CLASS_COLUMNS)}; got {classes}"
        )
    if all(name.isdecimal() for name in classes):
        if sorted(map(int, classes)) != list(range(len(classes))):
            raise InputError(
                f"{path}: columns named by numbers must number the classes from 0; got {classes[:12]}"
            )
        classes.sort(key=int)
    return classes


def _arrange(
    path: Path, values: str | None, classes: list[str], table: NumpyArray, texts: dict[str, NumpyArray]
) -> Arrays:
    """Rows of (member, example) as (M, N, C), every member's examples in the order of the first one's."""
    kind = _kind(path, None, values, "a table")
    labels = _label_numbers(path, texts["label"], classes)
    if "member" not in texts:
        return Arrays(kind, table, labels, texts.get("id"), texts.get("group"))
    rows = _rows_of_members(path, texts["member"], texts.get("id"))
    for name, column in (("label", labels), ("group", texts.get("group"))):
        if column is not None and (differs := (column[rows] != column[rows[0]]).any(0)).any():
            raise InputError(f"{path}: the members disagree on the {name} of example {int(differs.argmax())}")
    ids, groups = (texts[name][rows[0]] if name in texts else None for name in ("id", "group"))
    return Arrays(kind, table[rows], labels[rows[0]], ids, groups)


def _rows_of_members(path: Path, member: NumpyArray, ids: NumpyArray | None) -> NumpyArray:
    """Row numbers (M, N) in the table."""
    rows = [np.flatnonzero(member == name) for name in dict.fromkeys(member.tolist())]
    if len({len(r) for r in rows}) > 1:
        counts = ", ".join(f"{member[r[0]]}: {len(r)}" for r in rows[:8])
        raise InputError(f"{path}: every member needs one row per example; rows per member: {counts}")
    if ids is None:
        return np.stack(rows)
    first = np.argsort(ids[rows[0]], kind="stable")
    back = np.argsort(first)
    matched = [r[np.argsort(ids[r], kind="stable")][back] for r in rows]
    for r in matched:
        if (wrong := ids[r] != ids[matched[0]]).any():
            missing = str(ids[matched[0]][int(wrong.argmax())])
            raise InputError(f"{path}: member {member[r[0]]} must have one row with the id {missing!r}")
    return np.stack(matched)


def _label_numbers(path: Path, labels: NumpyArray, classes: list[str]) -> NumpyArray:
    """Labels as class indices; they are names of class columns, or numbers from 0."""
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
            f"{path}: label {text!r} of row {row} is neither a number nor a class column ({names})"
        ) from None
