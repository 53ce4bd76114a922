"""Predictions in files: `load_predictions`, `iter_predictions`, `save_predictions`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from calmix.errors import InputError
from calmix.prediction_files import Arrays, Columns, format_of, iter_parquet, read_arrays, write_arrays
from calmix.prediction_files.reading import guarded
from calmix.prediction_files.sources import open_source
from calmix.predictions.checks import numbers
from calmix.predictions.container import Predictions

Values = Literal["logits", "probs"]


def load_predictions(
    path: str | os.PathLike[str],
    values: Values | None = None,
    *,
    label: str | None = None,
    classes: Sequence[str] | None = None,
    group: str | Sequence[str] = (),
    id: str | None = None,
    member: str | None = None,
    ignore: str | Sequence[str] = (),
    positive: str | None = None,
    normalise: bool = False,
    format: str | None = None,
) -> Predictions:
    """Read predictions of any framework; nothing is unpickled and nothing is guessed.

    - `.npz`: array "logits" or "probs", (N, C) or (M, N, C); optional "labels", "ids" and "groups_<name>"
      (N,), "classes" (C,).
    - `.npy`: the values; the labels are in another file of the same folder, if there are any:
      `test_labels.npy` for `test_logits.npy`, `labels.npy` for any other name.
    - `.csv`, `.tsv`, `.parquet`, `.jsonl` (the text ones also as `.gz`): one column per class; optional
      columns "label" (a number from 0, a class's name, or true and false), "id", "group", "group_<name>" and
      "member". With "member" there is one row per member and example, matched by "id" if there is one and by
      order otherwise. Instead of class columns, "logits" or "probs" can hold lists (Parquet, JSON).
    - `.jsonl` logs of samples of the lm-evaluation-harness: options become classes by position.

    Class columns are named 0..C-1, or as the labels are, or with one common prefix (prob_cat, p_0); or
    `classes` names them, in order (for arrays, it names the classes). Any other column of numbers is
    refused, unless `ignore` names it. `positive` names a single column with P(y = 1). `label`, `id`, `member`
    and `group` name columns that are called otherwise. `values` is "logits" or "probs"; it is needed where no
    array, file or prefix says so. `normalise` divides rows of probabilities by their sum, if that is off by
    rounding. `path` "-" is standard input, in the `format` "csv" or any other.
    """
    options = _columns(label, classes, group, id, member, ignore, positive)
    _check_values(values)
    return _predictions(read_arrays(path, values, options, format), _name(path), normalise)


def iter_predictions(
    path: str | os.PathLike[str],
    values: Values | None = None,
    *,
    rows: int = 65_536,
    label: str | None = None,
    classes: Sequence[str] | None = None,
    group: str | Sequence[str] = (),
    id: str | None = None,
    ignore: str | Sequence[str] = (),
    positive: str | None = None,
    normalise: bool = False,
) -> Iterator[Predictions]:
    """The predictions of a file in blocks of up to `rows` examples; a Parquet file is never read whole.

    Metrics that are sums add up over blocks and files (`metrics.Accumulator`, whose parts merge exactly);
    those of bins of equal mass need the whole order. Other formats are read whole, `.npy` mapped.

    >>> import tempfile, numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> save_predictions(folder.name + "/test.npz", np.eye(5)[:, :3], [0, 1, 2, 0, 1])
    >>> [len(block) for block in iter_predictions(folder.name + "/test.npz", rows=2)]
    [2, 2, 1]
    >>> folder.cleanup()
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise InputError(f"rows is {rows!r}: it must be an integer, at least 1")
    _check_values(values)
    options = _columns(label, classes, group, id, None, ignore, positive)
    return _blocks(path, values, rows, options, normalise)


def _blocks(
    path: str | os.PathLike[str], values: Values | None, rows: int, options: Columns, normalise: bool
) -> Iterator[Predictions]:
    name = format_of(path)
    if name != "parquet":
        whole = _predictions(read_arrays(path, values, options), _name(path), normalise)
        yield from (whole.take(slice(start, start + rows)) for start in range(0, len(whole), rows))
        return
    source = guarded(path, name, lambda: open_source(path, zipped=False))
    arrays = iter_parquet(source, values, options, rows)
    first = 0
    while (block := guarded(path, name, lambda: next(arrays, None))) is not None:
        predictions = _predictions(block, f"{_name(path)}, rows from {first}", normalise)
        first += len(predictions)
        yield predictions
    if not first:
        raise InputError(f"{_name(path)}: no rows")


def save_predictions(
    path: str | os.PathLike[str],
    logits: Any,
    labels: Any = None,
    values: Values = "logits",
    *,
    ids: Any = None,
    groups: Any = None,
    classes: Sequence[str] | None = None,
) -> None:
    """Write predictions, logits (M, N, C) and labels (N,), in the format of the suffix, atomically.

    `values` says what the numbers are: "probs" are probabilities, and written as such. Instead of the arrays,
    `Predictions` can be given; `values` is then what is written of them.

    >>> import tempfile, torch
    >>> folder = tempfile.TemporaryDirectory()
    >>> save_predictions(folder.name + "/test.npz", torch.randn(4, 10, 3), torch.arange(10) % 3)
    >>> load_predictions(folder.name + "/test.npz").logits.shape
    torch.Size([4, 10, 3])
    >>> folder.cleanup()
    """
    if values not in ("logits", "probs"):
        raise InputError(f'values must be "logits" or "probs", got {values!r}')
    format_of(path)
    if isinstance(logits, Predictions):
        if any(given is not None for given in (labels, ids, groups, classes)):
            raise InputError("save_predictions: the predictions hold labels, ids, groups and classes already")
        predictions = logits
        numbers_written = _written(predictions, values)
    else:
        if groups is not None and not isinstance(groups, Mapping):
            groups = {"group": groups}
        make: Any = Predictions.from_probs if values == "probs" else Predictions
        try:
            predictions = make(logits, labels, ids=ids, groups=groups, classes=classes)
        except InputError as error:
            raise InputError(f"save_predictions: {error}") from None
        array, _ = numbers(values, logits)
        binary = array.ndim == 1
        numbers_written = _written(predictions, values) if binary else array.reshape(predictions.logits.shape)
    write_arrays(
        path,
        Arrays(
            values,
            numbers_written,
            None if predictions.labels is None else predictions.labels.numpy(),
            predictions.ids,
            predictions.groups,
            predictions.classes,
        ),
    )


def _written(predictions: Predictions, values: str) -> np.ndarray[Any, Any]:
    kept = predictions.logits if values == "logits" else predictions.logits.softmax(-1)
    return kept.numpy()


def _columns(
    label: Any, classes: Any, group: Any, id: Any, member: Any, ignore: Any, positive: Any
) -> Columns:
    return Columns(label, classes, group, id, member, ignore, positive)


def _check_values(values: str | None) -> None:
    if values not in (None, "logits", "probs"):
        raise InputError(f'values must be "logits" or "probs", got {values!r}')


def _name(path: str | os.PathLike[str]) -> str:
    return "standard input" if str(path) == "-" else str(path)


def _predictions(arrays: Arrays, source: str, normalise: bool) -> Predictions:
    """Validate arrays of any format; `source` begins every error."""
    columns: dict[str, Any] = {"ids": arrays.ids, "groups": arrays.groups, "classes": arrays.classes}
    try:
        if arrays.values == "probs":
            return Predictions.from_probs(arrays.logits, arrays.labels, normalise=normalise, **columns)
        if normalise:
            raise InputError("normalise is for probabilities, and these are logits")
        return Predictions(arrays.logits, arrays.labels, **columns)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
