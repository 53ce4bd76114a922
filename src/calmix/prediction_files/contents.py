"""Records: what a file holds, and which of a table's columns are what."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from calmix.errors import InputError

NumpyArray = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Arrays:
    """The content of a file; `values` is "logits" or "probs", the meaning of the array `logits`."""

    values: str
    logits: NumpyArray
    labels: NumpyArray | None = None
    ids: NumpyArray | None = None
    groups: Mapping[str, NumpyArray] = field(default_factory=dict)
    classes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Columns:
    """The columns that the user has named; None and () leave a column to its usual name.

    `label` is "label" or "labels", `id` is "id" or "ids", `member` is "member", and groups are "group" and
    those that begin with "group_".
    """

    label: str | None = None
    classes: tuple[str, ...] | None = None
    group: tuple[str, ...] = ()
    id: str | None = None
    member: str | None = None
    ignore: tuple[str, ...] = ()
    positive: str | None = None

    def __post_init__(self) -> None:
        for field_ in fields(self):
            value = getattr(self, field_.name)
            if field_.name in ("group", "ignore", "classes"):
                if isinstance(value, str):
                    value = (value,)
                value = None if value is None else tuple(map(str, value))
                object.__setattr__(self, field_.name, value)
            elif value is not None and not isinstance(value, str):
                raise InputError(f"{field_.name} must be the name of a column, got {value!r:.60}")
        if self.classes is not None and len(set(self.classes)) < len(self.classes):
            twice = max(self.classes, key=self.classes.count)
            raise InputError(f"classes names {twice!r} twice: give each class its own column")

    def given(self, *names: str) -> list[str]:
        """Those of these options that were given."""
        return [name for name in names if getattr(self, name) not in (None, ())]


def kind_of(source: str, implied: str | None, values: str | None, by: str) -> str:
    """Whether the values are "logits" or "probs", by the name of an array, file or column, or by `values`."""
    if implied and values and implied != values:
        raise InputError(f"{source}: values is {values!r}, but {by} implies {implied!r}")
    if kind := implied or values:
        return kind
    raise InputError(f'{source}: values must be "logits" or "probs": {by} implies neither')
