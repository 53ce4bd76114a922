"""Prediction contract: logits (M, N, C) and labels (N,).

A single model has M = 1. Pooling, the mean of the members' probabilities, happens in `pool` and nowhere else.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from calmix import files
from calmix.errors import InputError
from calmix.prediction_files import Arrays, read_arrays

Array = TypeVar("Array", torch.Tensor, "np.ndarray[Any, Any]")
Values = Literal["logits", "probs"]


@dataclass(frozen=True)
class Predictions:
    """Logits (M, N, C) of M members for N examples, labels (N,), and optional `ids` and `groups` (N,).

    Probabilities are stored as their logarithms, which are logits.
    """

    logits: torch.Tensor
    labels: torch.Tensor
    ids: "np.ndarray[Any, Any] | None" = None
    groups: "np.ndarray[Any, Any] | None" = None

    def member(self, k: int) -> "Predictions":
        """The predictions of member k alone, logits (1, N, C)."""
        return Predictions(self.logits[k : k + 1], self.labels, self.ids, self.groups)


def pool(logits: Array) -> Array:
    """Pooled probabilities (N, C): the mean over members of softmax(logits), logits (M, N, C).

    >>> pool(torch.tensor([[[0.0, 0.0]], [[0.0, float("-inf")]]]))
    tensor([[0.7500, 0.2500]])
    """
    tensor = torch.as_tensor(logits)
    if tensor.ndim != 3:
        hint = "; a single model is one member: pass logits[None]" if tensor.ndim == 2 else ""
        raise InputError(f"logits must be (member, example, class), got shape {tuple(tensor.shape)}{hint}")
    if tensor.shape[0] == 0:
        raise InputError(f"logits must have at least one member, got shape {tuple(tensor.shape)}")
    if not tensor.is_floating_point():
        raise InputError(f"logits must be floating point, got {tensor.dtype}")
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    pooled = tensor[0].softmax(-1, dtype=dtype)
    for member in tensor[1:]:
        pooled = pooled + member.softmax(-1, dtype=dtype)
    pooled = pooled / len(tensor)
    return pooled.numpy() if isinstance(logits, np.ndarray) else pooled


def save_predictions(
    path: str | os.PathLike[str],
    logits: Any,
    labels: Any,
    *,
    ids: Any = None,
    groups: Any = None,
) -> None:
    """Write predictions as `.npz` with arrays "logits" (M, N, C) and "labels" (N,), atomically.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> save_predictions(folder.name + "/test.npz", torch.randn(4, 10, 3), torch.arange(10) % 3)
    >>> load_predictions(folder.name + "/test.npz").logits.shape
    torch.Size([4, 10, 3])
    >>> folder.cleanup()
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise InputError(f"path must end in .npz, got {path}")
    arrays = Arrays("logits", *(_numpy(array) for array in (logits, labels, ids, groups)))
    predictions = _predictions(arrays, "save_predictions")
    columns: dict[str, Any] = {
        "logits": predictions.logits.numpy(),
        "labels": predictions.labels.numpy(),
        "ids": predictions.ids,
        "groups": predictions.groups,
    }
    with files.replacing(path) as file:
        np.savez(file, **{name: array for name, array in columns.items() if array is not None})


def load_predictions(path: str | os.PathLike[str], values: Values | None = None) -> Predictions:
    """Read predictions of any framework; nothing is unpickled and nothing is guessed.

    - `.npz`: array "logits" or "probs", (N, C) or (M, N, C); "labels" (N,); optional "ids" and "groups" (N,).
    - `.npy`: the values; the labels are in another file of the same folder: `test_labels.npy` for
      `test_logits.npy`, `labels.npy` for any other name.
    - `.csv`, `.parquet`: one column per class in their order, a column "label" (a number from 0, or the name
      of a class's column), optional "member", "id" and "group". With "member" there is one row per member and
      example, matched by "id" if there is one and by order otherwise.

    `values` is "logits" or "probs"; it is needed if neither an array's nor the file's name is either.
    """
    path = Path(path)
    if values not in (None, "logits", "probs"):
        raise InputError(f'values must be "logits" or "probs", got {values!r}')
    return _predictions(read_arrays(path, values), str(path))


def join_members(parts: Sequence[Predictions], names: Sequence[str]) -> Predictions:
    """One ensemble from separate predictions for the same examples, such as one file per member."""
    first = parts[0]
    for part, name in zip(parts[1:], names[1:], strict=True):
        if part.logits.shape[1:] != first.logits.shape[1:]:
            raise InputError(
                f"{name} has {_size(part)}, {names[0]} has {_size(first)}: members need the same examples"
            )
        if not torch.equal(part.labels, first.labels):
            i = int((part.labels != first.labels).nonzero()[0, 0])
            raise InputError(f"{name} and {names[0]} differ in the label of example {i}: sort both alike")
        if part.ids is not None and first.ids is not None and (part.ids != first.ids).any():
            i = int((part.ids != first.ids).nonzero()[0][0])
            raise InputError(f"{name} and {names[0]} differ in the id of example {i}: sort both by id")
    dtype = max((p.logits.dtype for p in parts), key=lambda d: torch.finfo(d).bits)
    logits = torch.cat([p.logits.to(dtype) for p in parts])
    return Predictions(logits, first.labels, first.ids, first.groups)


def _size(predictions: Predictions) -> str:
    return "{} examples of {} classes".format(*predictions.logits.shape[1:])


def _predictions(arrays: Arrays, source: str) -> Predictions:
    """Validate arrays of any format; `source` begins every error."""
    logits, labels = arrays.logits, arrays.labels
    if logits.ndim == 2:
        logits = logits[None]
    if logits.ndim != 3 or 0 in logits.shape or logits.shape[-1] < 2:
        expected = "(N, C) or (M, N, C) with at least one example and two classes"
        raise InputError(f"{source}: {arrays.values} must be {expected}, got shape {arrays.logits.shape}")
    if not np.issubdtype(logits.dtype, np.number) or np.iscomplexobj(logits):
        raise InputError(f"{source}: {arrays.values} must be numbers, got {logits.dtype}")
    examples, classes = logits.shape[1:]
    if labels.shape != (examples,):
        hint = "; if they are one-hot, pass labels.argmax(1)" if labels.shape == (examples, classes) else ""
        raise InputError(f"{source}: labels must have shape ({examples},), got {labels.shape}{hint}")
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"{source}: labels must be integers, got {labels.dtype}")
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        i = int(outside.argmax())
        raise InputError(f"{source}: label {labels[i]} of example {i} is outside 0..{classes - 1}")
    for name, column in (("ids", arrays.ids), ("groups", arrays.groups)):
        if column is not None and column.shape != (examples,):
            raise InputError(f"{source}: {name} must have shape ({examples},), got {column.shape}")
    if logits.dtype not in (np.float32, np.float64):
        logits = logits.astype(np.float32 if logits.dtype == np.float16 else np.float64)
    checked = _check_probs(logits, source) if arrays.values == "probs" else _check_logits(logits, source)
    return Predictions(
        logits=torch.from_numpy(np.ascontiguousarray(checked)),
        labels=torch.from_numpy(labels.astype(np.int64)),
        ids=arrays.ids,
        groups=arrays.groups,
    )


def _check_logits(logits: "np.ndarray[Any, Any]", source: str) -> "np.ndarray[Any, Any]":
    # A logit of -inf is a probability of 0; +inf, nan, or a row of -inf is not a distribution.
    top = logits.max(-1)
    if not np.isfinite(top).all():
        member, example = np.argwhere(~np.isfinite(top))[0]
        row = logits[member, example]
        raise InputError(
            f"{source}: the logits of example {example}, member {member} are not finite, got {row[:8]}: "
            f"fix or drop row {example}"
        )
    return logits


def _check_probs(probs: "np.ndarray[Any, Any]", source: str) -> "np.ndarray[Any, Any]":
    total = probs.sum(-1, dtype=np.float64)
    low = probs.min(-1)
    wrong = ~((low >= 0) & (np.abs(total - 1) <= 1e-3))
    if wrong.any():
        member, example = np.argwhere(wrong)[0]
        row = probs[member, example]
        raise InputError(
            f"{source}: the probabilities of example {example}, member {member} must be at least 0 "
            f"and sum to 1, got {row[:8]} (sum {total[member, example]:.6g}); "
            "if these are logits, load them as logits"
        )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probs))


def _numpy(array: Any) -> Any:
    if isinstance(array, torch.Tensor):
        array = array.detach().cpu()
        return (array.float() if array.dtype == torch.bfloat16 else array).numpy()
    return None if array is None else np.asarray(array)
