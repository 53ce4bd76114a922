"""Prediction contract: logits (M, N, C) and labels (N,).

A single model has M = 1. Pooling, the mean of the members' probabilities, happens in `pool` and nowhere else.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch

from calmix import files
from calmix.errors import InputError
from calmix.prediction_files import Arrays, read_arrays

Array = TypeVar("Array", torch.Tensor, "np.ndarray[Any, Any]")
NumpyArray = np.ndarray[Any, Any]
Values = Literal["logits", "probs"]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits (M, N, C) of M members for N examples, and what is known of the examples.

    One member may come as (N, C). `labels` (N,) are class numbers, or names where `classes` are given; without
    them there is nothing to judge, but a calibrator can be applied. `groups` maps a name to a column (N,).
    Probabilities are refused as logits: `from_probs` takes them and keeps their logarithms, which are logits.

    >>> Predictions(torch.randn(4, 10, 3), torch.arange(10) % 3, groups={"age": np.arange(10) // 5})
    Predictions of 4 members for 10 examples of 3 classes, with labels, groups: age
    """

    logits: torch.Tensor
    labels: torch.Tensor | None = None
    _: KW_ONLY
    ids: NumpyArray | None = None
    groups: Mapping[str, NumpyArray] = field(default_factory=dict)
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        logits = _numbers("logits", self.logits)
        logits = _check_logits(logits[None] if logits.ndim == 2 else logits)
        self._set(logits, self.labels, self.ids, self.groups, self.classes)

    @classmethod
    def from_probs(
        cls,
        probs: Any,
        labels: Any = None,
        *,
        ids: Any = None,
        groups: Mapping[str, Any] | None = None,
        classes: Sequence[str] | None = None,
    ) -> "Predictions":
        """Predictions from probabilities: (N, C) or (M, N, C); (N,) are P(y = 1) of two classes.

        >>> Predictions.from_probs(np.array([0.1, 0.8]), [0, 1]).logits.exp()
        tensor([[[0.9000, 0.1000],
                 [0.2000, 0.8000]]], dtype=torch.float64)
        """
        array = _numbers("probs", probs)
        if array.ndim == 1:
            array = np.stack([1 - array, array], axis=1)
        self = cls.__new__(cls)
        self._set(_check_probs(array[None] if array.ndim == 2 else array), labels, ids, groups, classes)
        return self

    @classmethod
    def from_batch_first(cls, logits: Any, labels: Any = None, **columns: Any) -> "Predictions":
        """Predictions from logits (N, M, C), as frameworks gather them that join batches on axis 0."""
        array = _numbers("logits", logits)
        if array.ndim != 3:
            raise InputError(f"logits must be (example, member, class), got shape {array.shape}")
        return cls(np.swapaxes(array, 0, 1), labels, **columns)  # type: ignore[arg-type]

    def _set(self, logits: NumpyArray, labels: Any, ids: Any, groups: Any, classes: Any) -> None:
        examples, num_classes = logits.shape[1:]
        names = None if classes is None else tuple(map(str, classes))
        if names is not None and len(names) != num_classes:
            raise InputError(f"classes has {len(names)} names for {num_classes} classes: give one for each")
        if names is not None and len(set(names)) < len(names):
            raise InputError(f"classes names {max(names, key=names.count)!r} twice: give each its own name")
        columns = {name: _column(f"groups[{name!r}]", c, examples) for name, c in dict(groups or {}).items()}
        fields = {
            "logits": torch.from_numpy(np.ascontiguousarray(logits)),
            "labels": None if labels is None else _check_labels(labels, examples, num_classes, names),
            "ids": None if ids is None else _column("ids", ids, examples),
            "groups": columns,
            "classes": names,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes; their numbers where they have none."""
        return self.classes or tuple(map(str, range(self.logits.shape[2])))

    def member(self, k: int) -> "Predictions":
        """The predictions of member k alone, logits (1, N, C)."""
        return replace(self, logits=self.logits[k : k + 1])

    def __repr__(self) -> str:
        members, examples, classes = self.logits.shape
        labels = "with labels" if self.labels is not None else "without labels"
        groups = f", groups: {', '.join(self.groups)}" if self.groups else ""
        return (
            f"Predictions of {members} members for {examples} examples of {classes} classes, {labels}{groups}"
        )


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
    groups = {} if groups is None else groups if isinstance(groups, Mapping) else {"group": groups}
    try:
        predictions = Predictions(logits, labels, ids=ids, groups=groups)
    except InputError as error:
        raise InputError(f"save_predictions: {error}") from None
    columns: dict[str, Any] = {"logits": predictions.logits.numpy(), "ids": predictions.ids}
    columns["labels"] = None if predictions.labels is None else predictions.labels.numpy()
    columns |= {f"groups_{name}": column for name, column in predictions.groups.items()}
    columns["classes"] = None if predictions.classes is None else np.array(predictions.classes)
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
        if (
            part.labels is not None
            and first.labels is not None
            and not torch.equal(part.labels, first.labels)
        ):
            i = int((part.labels != first.labels).nonzero()[0, 0])
            raise InputError(f"{name} and {names[0]} differ in the label of example {i}: sort both alike")
        if part.ids is not None and first.ids is not None and (part.ids != first.ids).any():
            i = int((part.ids != first.ids).nonzero()[0][0])
            raise InputError(f"{name} and {names[0]} differ in the id of example {i}: sort both by id")
    dtype = max((p.logits.dtype for p in parts), key=lambda d: torch.finfo(d).bits)
    logits = torch.cat([p.logits.to(dtype) for p in parts])
    return replace(first, logits=logits)


def _size(predictions: Predictions) -> str:
    return "{} examples of {} classes".format(*predictions.logits.shape[1:])


def _predictions(arrays: Arrays, source: str) -> Predictions:
    """Validate arrays of any format; `source` begins every error."""
    make = Predictions.from_probs if arrays.values == "probs" else Predictions
    groups = {} if arrays.groups is None else {"group": arrays.groups}
    try:
        return make(arrays.logits, arrays.labels, ids=arrays.ids, groups=groups)  # type: ignore[operator]
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _numbers(name: str, values: Any) -> NumpyArray:
    """An array (N, C) or (M, N, C) of numbers in the machine's own byte order, float32 or float64."""
    array = np.asarray(_numpy(values))
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise InputError(f"{name} must be numbers, got {array.dtype}")
    if name == "probs" and array.ndim == 1 and array.size:
        pass  # P(y = 1)
    elif array.ndim not in (2, 3) or 0 in array.shape or array.shape[-1] < 2:
        expected = "(N, C) or (M, N, C) with at least one example and two classes"
        raise InputError(f"{name} must be {expected}, got shape {array.shape}")
    small = array.dtype.itemsize <= 4 and np.issubdtype(array.dtype, np.floating)
    return array.astype(np.float32 if small else np.float64, copy=False)


def _check_labels(
    labels: Any, examples: int, num_classes: int, names: tuple[str, ...] | None
) -> torch.Tensor:
    array = np.asarray(_numpy(labels))
    if array.shape != (examples,):
        hint = (
            "; if they are one-hot, pass labels.argmax(1)" if array.shape == (examples, num_classes) else ""
        )
        raise InputError(f"labels must have shape ({examples},), got {array.shape}{hint}")
    if array.dtype.kind in "US" and names is not None:
        number = {name: k for k, name in enumerate(names)}
        texts = array.astype(str).tolist()
        for i, text in enumerate(texts):
            if text not in number:
                raise InputError(
                    f"label {text!r} of example {i} is none of the classes {', '.join(names[:12])}"
                )
        array = np.array([number[text] for text in texts])
    if array.dtype.kind == "f" and (array == np.floor(array)).all():
        array = array.astype(np.int64)  # whole numbers, as tables have them
    if array.dtype.kind not in "iub":
        raise InputError(f"labels must be integers, got {array.dtype}")
    outside = (array < 0) | (array >= num_classes)
    if outside.any():
        i = int(outside.argmax())
        raise InputError(f"label {array[i]} of example {i} is outside 0..{num_classes - 1}")
    return torch.from_numpy(array.astype(np.int64))


def _column(name: str, values: Any, examples: int) -> NumpyArray:
    array = np.asarray(_numpy(values))
    if array.shape != (examples,):
        raise InputError(f"{name} must have shape ({examples},), got {array.shape}")
    return array


def _check_logits(logits: NumpyArray) -> NumpyArray:
    # A logit of -inf is a probability of 0; +inf, nan, or a row of -inf is not a distribution.
    top = logits.max(-1)
    if not np.isfinite(top).all():
        member, example = np.argwhere(~np.isfinite(top))[0]
        row = logits[member, example]
        raise InputError(
            f"the logits of example {example}, member {member} are not finite, got {row[:8]}: "
            f"fix or drop row {example}"
        )
    refuse_probs(logits)
    return logits


def refuse_probs(logits: NumpyArray | torch.Tensor) -> None:
    """Rows that are all on the simplex are probabilities, whatever they are called."""
    rows = logits.reshape(-1, logits.shape[-1])
    for part in (rows[:16], rows):  # nearly all logits are told by a few rows
        if not bool((part >= 0).all()) or not bool((abs(part.sum(-1) - 1) <= 1e-3).all()):
            return
    raise InputError(
        "these logits are probabilities: every row is at least 0 and sums to 1. Say so: "
        'Predictions.from_probs(probs, ...), or values="probs"'
    )


def _check_probs(probs: NumpyArray) -> NumpyArray:
    total = probs.sum(-1, dtype=np.float64)
    low = probs.min(-1)
    wrong = ~((low >= 0) & (np.abs(total - 1) <= 1e-3))
    if wrong.any():
        member, example = np.argwhere(wrong)[0]
        row = probs[member, example]
        raise InputError(
            f"the probabilities of example {example}, member {member} must be at least 0 "
            f"and sum to 1, got {row[:8]} (sum {total[member, example]:.6g}); "
            "if these are logits, load them as logits"
        )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probs))


def _numpy(array: Any) -> Any:
    if isinstance(array, torch.Tensor):
        array = array.detach().cpu()
        return (array.float() if array.dtype == torch.bfloat16 else array).numpy()
    return array
