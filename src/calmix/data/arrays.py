"""Data sets from arrays: what users have in files and in memory, checked and brought into the form of a
`DataSet`."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calmix.data.dataset import DataSet, Part, kind_of
from calmix.data.folder import ImageFiles
from calmix.errors import InputError

PARTS = ("train", "val", "test")
Array = npt.NDArray[Any]


def from_arrays(
    arrays: Mapping[str, Any], *, name: str = "arrays", classes: Sequence[str] | None = None
) -> DataSet:
    """A data set of `x_train, y_train, x_test, y_test`, and where given `x_val, y_val`, `groups_train`,
    `groups_val` and `groups_test`.

    x: uint8 images (N, H, W) or (N, H, W, C), floats (N, ...) of any shape, or integer token sequences
    (N, L). y: whole numbers from 0, or strings. Groups are whole numbers or strings, a value for each
    example. `classes` names the labels.

    >>> x, y = np.zeros((4, 3)), np.array(["no", "yes", "no", "yes"])
    >>> whole = from_arrays({"x_train": x, "y_train": y, "x_test": x, "y_test": y})
    >>> whole.classes, whole.train.shape, whole.train.labels.tolist()
    (('no', 'yes'), (3,), [0, 1, 0, 1])
    """
    values = {key: _array(value) for key, value in arrays.items()}
    for key in ("x_train", "y_train", "x_test", "y_test"):
        if key not in values:
            got = ", ".join(values) or "nothing"
            raise InputError(f"{name} lacks {key}: give x_train, y_train, x_test and y_test; it has {got}")
    if ("x_val" in values) != ("y_val" in values):
        raise InputError(f"{name} has only one of x_val and y_val: give both, or neither")
    present = [part for part in PARTS if f"x_{part}" in values]
    names, labels = _labels(name, {part: values[f"y_{part}"] for part in present}, classes)
    group_names, groups = _groups(
        name, {p: values[f"groups_{p}"] for p in present if f"groups_{p}" in values}
    )
    parts = {}
    for part in present:
        inputs = _inputs(f"{name}: x_{part}", values[f"x_{part}"])
        for key, column in ((f"y_{part}", labels[part]), (f"groups_{part}", groups.get(part))):
            if column is not None and len(column) != len(inputs):
                raise InputError(f"{name}: x_{part} has {len(inputs)} rows, but {key} has {len(column)}")
        parts[part] = Part(inputs, labels[part], groups.get(part))
    whole = DataSet(name, names, parts["train"], parts["test"], group_names, parts.get("val"))
    check_dataset(whole)
    return whole


def check_dataset(whole: DataSet) -> None:
    """Refuse a data set whose parts do not fit together: shapes, kinds, labels and groups out of range."""
    parts = {"train": whole.train, "validation": whole.validation, "test": whole.test}
    shape, kind = whole.train.shape, None
    if len(whole.classes) < 2:
        raise InputError(f"{whole.name} has {len(whole.classes)} class: a classifier needs at least two")
    for part_name, part in parts.items():
        if part is None:
            continue
        if len(part) == 0:
            raise InputError(f"{whole.name}: the {part_name} part has no examples")
        kind = kind or kind_of(part)
        if part.shape != shape or kind_of(part) != kind:
            raise InputError(
                f"{whole.name}: the {part_name} part has examples of shape {part.shape} ({kind_of(part)}), "
                f"the training part {shape} ({kind}): they must be alike"
            )
        _in_range(whole.name, part_name, "labels", part.labels, len(whole.classes), "classes")
        if part.groups is not None:
            count = len(whole.group_names or ())
            _in_range(whole.name, part_name, "groups", part.groups, count, "group_names")
        if isinstance(part, Part) and part.inputs.is_floating_point():
            _finite(f"{whole.name}: inputs of the {part_name} part", part.inputs)


def dataset_digest(whole: DataSet) -> str:
    """SHA-256 of the content: inputs, labels, groups and class names; of image files, names and sizes."""
    digest = hashlib.sha256(repr((whole.classes, whole.group_names)).encode())
    for part in (whole.train, whole.validation, whole.test):
        if part is None:
            digest.update(b"no part")
            continue
        digest.update(repr((len(part), part.shape, part.groups is None)).encode())
        for column in (part.labels, part.groups):
            if column is not None:
                digest.update(column.cpu().contiguous().numpy().tobytes())
        if isinstance(part, ImageFiles):
            for file in part.files.tolist():
                size = (part.folder / file.decode(errors="surrogateescape")).stat().st_size
                digest.update(file + f" {size}\n".encode())
        else:
            for inputs in part.read(torch.arange(len(part)).split(1000)):
                digest.update(str(inputs.dtype).encode())
                digest.update(inputs.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _array(value: Any) -> Array:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _inputs(where: str, x: Array) -> Tensor:
    """The inputs as a `Part` has them."""
    if x.ndim < 2 or not len(x):
        raise InputError(f"{where} has the shape {x.shape}: give (N, ...), at least one example in rows")
    if x.dtype == np.uint8 and x.ndim in (3, 4):
        return torch.from_numpy(np.ascontiguousarray(x if x.ndim == 4 else x[..., None]))
    if x.dtype.kind in "iu" and x.ndim == 2:
        if int(x.min()) < 0:
            row, column = (int(i) for i in np.argwhere(x < 0)[0])
            raise InputError(
                f"{where}[{row}, {column}] is {x[row, column]}: token ids start at 0 "
                "(a table of numbers must be floats)"
            )
        return torch.from_numpy(x.astype(np.int64))
    if x.dtype.kind == "f":
        inputs = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
        _finite(where, inputs)
        return inputs
    raise InputError(
        f"{where} is {x.dtype} {x.shape}: give uint8 images (N, H, W) or (N, H, W, C), floats (N, ...), or "
        "whole numbers (N, L) for tokens"
    )


def _finite(where: str, inputs: Tensor) -> None:
    finite = inputs.isfinite()
    if not finite.all():
        place = (~finite).nonzero()[0].tolist()
        value = inputs[tuple(place)].item()
        count = int((~finite).sum())
        raise InputError(
            f"{where} {place} is {value} ({count:,} such value{'s' * (count > 1)} in all): fill it in, or "
            "drop the row"
        )


def _labels(
    name: str, columns: dict[str, Array], classes: Sequence[str] | None
) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    for part, y in columns.items():
        if y.ndim != 1 or y.dtype.kind not in "iuUS":
            raise InputError(
                f"{name}: y_{part} is {y.dtype} {y.shape}: give one whole number or string for each example"
            )
    if any(y.dtype.kind in "US" for y in columns.values()):
        texts = {part: y.astype(str) for part, y in columns.items()}
        names = tuple(map(str, np.unique(texts["train"]) if classes is None else classes))
        return names, {part: _codes(f"{name}: y_{part}", text, names) for part, text in texts.items()}
    count = int(columns["train"].max()) + 1 if classes is None else len(classes)
    names = tuple(map(str, range(count) if classes is None else classes))
    labels = {part: torch.from_numpy(y.astype(np.int64)) for part, y in columns.items()}
    for part, column in labels.items():
        _in_range(name, part, f"y_{part}", column, count, "classes")
    return names, labels


def _groups(name: str, columns: dict[str, Array]) -> tuple[tuple[str, ...] | None, dict[str, Tensor]]:
    """Names of the groups, sorted, and each example's number among them."""
    if not columns:
        return None, {}
    for part, column in columns.items():
        if column.ndim != 1 or column.dtype.kind not in "iuUSb":
            raise InputError(
                f"{name}: groups_{part} is {column.dtype} {column.shape}: give one value for each example"
            )
    values = np.unique(np.concatenate(list(columns.values())))
    names = tuple(map(str, values))
    return names, {
        part: torch.from_numpy(np.searchsorted(values, column)) for part, column in columns.items()
    }


def _codes(where: str, text: Array, names: tuple[str, ...]) -> Tensor:
    known = {value: k for k, value in enumerate(names)}
    for i, value in enumerate(text):
        if str(value) not in known:
            raise InputError(f"{where}[{i}] is {str(value)!r}, which is no class: {', '.join(names)}")
    return torch.tensor([known[str(value)] for value in text], dtype=torch.int64)


def _in_range(name: str, part: str, what: str, column: Tensor, count: int, limit: str) -> None:
    wrong = ((column < 0) | (column >= count)).nonzero()[:, 0]
    if len(wrong):
        i = int(wrong[0])
        raise InputError(
            f"{name}: {what}[{i}] of the {part} part is {int(column[i])}, out of range for {count} {limit}: "
            f"give 0 to {count - 1}, or name all {limit}"
        )
