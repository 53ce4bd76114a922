"""`read_arrays`: a file by its suffix, or standard input by the name of its format."""

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from calmix import files
from calmix.errors import InputError, one_of
from calmix.prediction_files.arrays import read_npy, read_npz
from calmix.prediction_files.contents import Arrays, Columns
from calmix.prediction_files.layout import find_layout
from calmix.prediction_files.lines import read_lines
from calmix.prediction_files.parquet import read_parquet
from calmix.prediction_files.sources import STANDARD_INPUT, Source, open_source
from calmix.prediction_files.tables import read_table
from calmix.prediction_files.text import read_text

READ_ERRORS = (*files.READ_ERRORS, csv.Error)


def _text(delimiter: str) -> Callable[[Source, str | None, Columns], Arrays]:
    def read(source: Source, values: str | None, options: Columns) -> Arrays:
        table = read_text(source, options, delimiter)
        return read_table(table, find_layout(table, options), values)

    return read


READERS: dict[str, Callable[[Source, str | None, Columns], Arrays]] = {
    "npz": read_npz,
    "npy": read_npy,
    "csv": _text(","),
    "tsv": _text("\t"),
    "parquet": read_parquet,
    "jsonl": read_lines,
}
TEXT = ("csv", "tsv", "jsonl")
FORMATS = (*READERS, *(f"{name}.gz" for name in TEXT))


def format_of(path: str | os.PathLike[str], format: str | None = None) -> str:
    """The name of a file's format: its suffix, unless `format` says otherwise.

    >>> format_of("test.csv.gz"), format_of("-", "csv")
    ('csv.gz', 'csv')
    """
    if format is not None:
        name = format.removeprefix(".").lower()
        one_of("format", name, FORMATS)
        return name
    if str(path) == STANDARD_INPUT:
        raise InputError(f"standard input has no suffix: format must be one of {', '.join(FORMATS)}")
    suffixes = [suffix.removeprefix(".").lower() for suffix in Path(path).suffixes]
    name = ".".join(suffixes[-2:]) if suffixes[-1:] == ["gz"] else "".join(suffixes[-1:])
    if name not in FORMATS:
        known = ", ".join(f".{f}" for f in FORMATS)
        raise InputError(f"{path}: the suffix must be one of {known}, got {Path(path).suffix!r}")
    return name


def read_arrays(
    path: str | os.PathLike[str], values: str | None, options: Columns, format: str | None = None
) -> Arrays:
    """Read a file; `values` is "logits", "probs" or None to take it from the file."""
    name = format_of(path, format)
    read = READERS[name.removesuffix(".gz")]
    arrays: Arrays = guarded(path, name, lambda: read(_source(path, name), values, options))
    return arrays


def _source(path: str | os.PathLike[str], name: str) -> Source:
    return open_source(path, zipped=name.endswith(".gz"))


def guarded(path: str | os.PathLike[str], name: str, read: Callable[[], Any]) -> Any:
    """What the readers of files raise of content that they cannot read is an `InputError`."""
    try:
        return read()
    except InputError:
        raise
    except Exception as error:
        if not isinstance(error, READ_ERRORS) and not type(error).__module__.startswith("pyarrow"):
            raise
        where = "standard input" if str(path) == STANDARD_INPUT else str(path)
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"{where}: cannot be read as .{name}: {reason}") from None
