"""`Predictions`: logits of an ensemble, labels, and what else is known of the examples."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import torch

from calmix.errors import InputError
from calmix.predictions.checks import check_labels, check_logits, column, log_probs, numbers

NumpyArray = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits (M, N, C) of M members for N examples, and what is known of the examples.

    One member may come as (N, C). `labels` (N,) are class numbers, or names where `classes` are given;
    without them there is nothing to judge, but a calibrator can be applied. `groups` maps a name to a column
    (N,). Probabilities are refused as logits: `from_probs` takes them and keeps their logarithms.

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
        logits, _ = numbers("logits", self.logits)
        logits = check_logits(logits[None] if logits.ndim == 2 else logits)
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
        normalise: bool = False,
    ) -> "Predictions":
        """Predictions from probabilities: (N, C) or (M, N, C); (N,) are P(y = 1) of two classes.

        `normalise` divides every row by its sum, where that is off by the rounding of a table.

        >>> Predictions.from_probs(np.array([0.1, 0.8]), [0, 1]).logits.exp()
        tensor([[[0.9000, 0.1000],
                 [0.2000, 0.8000]]], dtype=torch.float64)
        """
        array, rounding = numbers("probs", probs)
        if array.ndim == 1:
            wrong = ~((array >= 0) & (array <= 1))
            if wrong.any():
                i = int(wrong.argmax())
                raise InputError(f"probs[{i}] is {array[i]}: probs (N,) are P(y = 1) and must be in [0, 1]")
            array = np.stack([1 - array, array], axis=1)
        logits = log_probs(array[None] if array.ndim == 2 else array, rounding=rounding, normalise=normalise)
        self = cls.__new__(cls)
        self._set(logits, labels, ids, groups, classes)
        return self

    @classmethod
    def from_batch_first(
        cls,
        logits: Any,
        labels: Any = None,
        *,
        ids: Any = None,
        groups: Mapping[str, Any] | None = None,
        classes: Sequence[str] | None = None,
    ) -> "Predictions":
        """Predictions from logits (N, M, C), as frameworks gather them that join batches on axis 0.

        >>> Predictions.from_batch_first(torch.randn(10, 4, 3))
        Predictions of 4 members for 10 examples of 3 classes, without labels
        """
        array, _ = numbers("logits", logits)
        if array.ndim != 3:
            raise InputError(f"logits must be (example, member, class), got shape {array.shape}")
        self = cls.__new__(cls)
        self._set(check_logits(np.swapaxes(array, 0, 1)), labels, ids, groups, classes)
        return self

    def _set(self, logits: NumpyArray, labels: Any, ids: Any, groups: Any, classes: Any) -> None:
        examples, num_classes = logits.shape[1:]
        if isinstance(classes, str):
            raise InputError(f"classes is the text {classes!r:.60}: give a list with the name of each class")
        names = None if classes is None else tuple(map(str, classes))
        if names is not None and len(names) != num_classes:
            raise InputError(f"classes has {len(names)} names for {num_classes} classes: give one for each")
        if names is not None and len(set(names)) < len(names):
            raise InputError(f"classes names {max(names, key=names.count)!r} twice: give each its own name")
        if groups is not None and not isinstance(groups, Mapping):
            raise InputError(f'groups must map names to columns, {{"age": ...}}, not {type(groups).__name__}')
        contiguous = np.ascontiguousarray(logits)
        fields = {
            # torch warns of memory that cannot be written, such as that of a read-only map
            "logits": torch.from_numpy(contiguous if contiguous.flags.writeable else contiguous.copy()),
            "labels": None if labels is None else check_labels(labels, examples, num_classes, names),
            "ids": None if ids is None else column("ids", ids, examples),
            "groups": {
                str(name): column(f"groups[{name!r}]", values, examples)
                for name, values in (groups or {}).items()
            },
            "classes": names,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        """The number of examples."""
        return self.logits.shape[1]

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes; their numbers where they have none."""
        return self.classes or tuple(map(str, range(self.logits.shape[2])))

    @property
    def known_labels(self) -> torch.Tensor:
        """The labels; an error where there are none."""
        if self.labels is None:
            raise InputError("the predictions have no labels: there is nothing to judge or to fit")
        return self.labels

    def member(self, k: int) -> "Predictions":
        """The predictions of member k alone, logits (1, N, C)."""
        if not 0 <= k < len(self.logits):
            raise InputError(f"there is no member {k}: they are numbered 0 to {len(self.logits) - 1}")
        return self._with(self.logits[k : k + 1])

    def take(self, rows: Any) -> "Predictions":
        """The examples of these row numbers, or of this slice."""
        at = rows if isinstance(rows, slice) else torch.as_tensor(rows)
        place = rows if isinstance(rows, slice) else np.asarray(rows)
        return self._with(
            self.logits[:, at],
            labels=None if self.labels is None else self.labels[at],
            ids=None if self.ids is None else self.ids[place],
            groups={name: values[place] for name, values in self.groups.items()},
        )

    def _with(self, logits: torch.Tensor, **fields: Any) -> "Predictions":
        """A copy with other logits, which are known to be valid."""
        copy = object.__new__(type(self))
        for name in ("labels", "ids", "groups", "classes"):
            object.__setattr__(copy, name, fields.get(name, getattr(self, name)))
        object.__setattr__(copy, "logits", logits)
        return copy

    def __repr__(self) -> str:
        members, examples, classes = self.logits.shape
        labels = "with labels" if self.labels is not None else "without labels"
        groups = f", groups: {', '.join(self.groups)}" if self.groups else ""
        of = f"{members} member{'s' * (members != 1)}"
        return f"Predictions of {of} for {examples} examples of {classes} classes, {labels}{groups}"


def join_members(parts: Sequence[Predictions], names: Sequence[str]) -> Predictions:
    """One ensemble from separate predictions for the same examples, such as one file per member."""
    first = parts[0]
    for part, name in zip(parts[1:], names[1:], strict=True):
        if part.logits.shape[1:] != first.logits.shape[1:]:
            raise InputError(
                f"{name} has {_size(part)}, {names[0]} has {_size(first)}: members need the same examples"
            )
        if part.classes and first.classes and part.classes != first.classes:
            raise InputError(f"{name} and {names[0]} differ in the names of the classes, or in their order")
        if (
            part.labels is not None
            and first.labels is not None
            and not torch.equal(part.labels, first.labels)
        ):
            i = int((part.labels != first.labels).nonzero()[0, 0])
            raise InputError(f"{name} and {names[0]} differ in the label of example {i}: sort both alike")
        if part.ids is not None and first.ids is not None:
            differ = part.ids.astype(str) != first.ids.astype(str)
            if differ.any():
                i = int(differ.argmax())
                raise InputError(f"{name} and {names[0]} differ in the id of example {i}: sort both by id")
    dtype = max((p.logits.dtype for p in parts), key=lambda d: torch.finfo(d).bits)
    logits = torch.cat([p.logits.to(dtype) for p in parts])

    def first_known(field: str) -> Any:
        return next((getattr(p, field) for p in parts if getattr(p, field) is not None), None)

    return first._with(
        logits,
        labels=first_known("labels"),
        ids=first_known("ids"),
        classes=first_known("classes"),
        groups={name: values for part in reversed(parts) for name, values in part.groups.items()},
    )


def _size(predictions: Predictions) -> str:
    return "{} examples of {} classes".format(*predictions.logits.shape[1:])
