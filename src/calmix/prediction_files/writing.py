"""Prediction files written: what `read_arrays` reads, atomically."""

import csv
import gzip
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from calmix import files
from calmix.errors import InputError
from calmix.prediction_files.arrays import GROUP, labels_path, named_kind
from calmix.prediction_files.contents import Arrays, NumpyArray
from calmix.prediction_files.layout import GROUP as GROUP_COLUMN
from calmix.prediction_files.reading import format_of

PREFIX = {"logits": "logit_", "probs": "prob_"}


def write_arrays(path: str | os.PathLike[str], arrays: Arrays) -> None:
    """Write predictions in the format of the path's suffix.

    In a table, the columns of the classes are prob_<class> or logit_<class>, besides "id", "member" (where
    there are several), "label" and group_<name>.
    """
    name = format_of(path)
    path = Path(path)
    if name == "npy":
        _write_npy(path, arrays)
        return
    with files.replacing(path) as file:
        if name == "npz":
            _write_npz(file, arrays)
        elif name == "parquet":
            _write_parquet(path, file, arrays)
        elif name.endswith(".gz"):
            # Without name and time, so that the same predictions are the same bytes.
            with gzip.GzipFile("", fileobj=file, mode="wb", mtime=0) as zipped:
                _write_text(zipped, arrays, name.removesuffix(".gz"))  # type: ignore[arg-type]
        else:
            _write_text(file, arrays, name)


def _write_npz(file: IO[bytes], arrays: Arrays) -> None:
    named: dict[str, Any] = {arrays.values: arrays.logits, "labels": arrays.labels, "ids": arrays.ids}
    named |= {GROUP + name: column for name, column in arrays.groups.items()}
    named["classes"] = None if arrays.classes is None else np.array(arrays.classes)
    np.savez(file, **{name: array for name, array in named.items() if array is not None})


def _write_npy(path: Path, arrays: Arrays) -> None:
    if named_kind(path) not in (None, arrays.values):
        raise InputError(f"{path}: its name implies {named_kind(path)!r}, but {arrays.values} are written")
    with files.replacing(path) as file:
        np.save(file, arrays.logits)
    if arrays.labels is not None:
        with files.replacing(labels_path(path)) as file:
            np.save(file, arrays.labels)


def _columns(arrays: Arrays) -> dict[str, NumpyArray]:
    """The columns of a table, a row for each member and example."""
    logits = arrays.logits if arrays.logits.ndim == 3 else arrays.logits[None]
    members, examples, classes = logits.shape
    names = arrays.classes or tuple(map(str, range(classes)))
    columns: dict[str, NumpyArray] = {}
    ids = arrays.ids
    if members > 1:
        columns["member"] = np.repeat(np.arange(members), examples)
    if ids is not None:
        columns["id"] = np.tile(ids, members)
    rows = logits.reshape(-1, classes)
    columns |= {PREFIX[arrays.values] + name: rows[:, k] for k, name in enumerate(names)}
    if arrays.labels is not None:
        labels = np.array(names)[arrays.labels] if arrays.classes else arrays.labels
        columns["label"] = np.tile(labels, members)
    for name, column in arrays.groups.items():
        columns["group" if name == "group" else GROUP_COLUMN + name] = np.tile(column, members)
    return columns


def _rows(columns: dict[str, NumpyArray], block: int = 4096) -> Iterator[tuple[Any, ...]]:
    size = len(next(iter(columns.values())))
    for start in range(0, size, block):
        yield from zip(*(column[start : start + block].tolist() for column in columns.values()), strict=True)


def _write_text(file: IO[bytes], arrays: Arrays, name: str) -> None:
    columns = _columns(arrays)
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    if name == "jsonl":
        for row in _rows(columns):
            text.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")
    else:
        table = csv.writer(text, delimiter="," if name == "csv" else "\t", lineterminator="\n")
        table.writerow(columns)
        table.writerows(_rows(columns))
    text.flush()
    text.detach()  # the file is closed by its owner


def _write_parquet(path: Path, file: IO[bytes], arrays: Arrays) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"{path}: writing Parquet needs pyarrow: pip install 'calmix[parquet]'") from None
    columns = {name: np.ascontiguousarray(column) for name, column in _columns(arrays).items()}
    table = pyarrow.table({n: c.tolist() if c.dtype.kind == "U" else c for n, c in columns.items()})
    parquet.write_table(table, file)
