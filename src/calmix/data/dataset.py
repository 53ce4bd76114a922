"""Data sets: a training and a test part, each a few tensors instead of one object per image."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from calmix.errors import InputError


@dataclass(frozen=True)
class Draws:
    """Key of a part's random draws."""

    seed: int
    epoch: int
    member: int


class Examples(Protocol):
    """What batches need of a part, in memory (`Part`) or decoded from files (`ImageFiles`)."""

    @property
    def labels(self) -> Tensor:
        """`(N,)` int64."""

    @property
    def groups(self) -> Tensor | None:
        """`(N,)` int64, or None if the data set has no groups besides its classes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one network input: `(C, H, W)` or `(F,)`."""

    def __len__(self) -> int: ...

    def take(self, index: Tensor) -> "Examples":
        """The examples at `index`, renumbered from 0."""

    def read(self, batches: Sequence[Tensor], draws: Draws | None = None) -> Iterator[Tensor]:
        """Inputs `(B, *shape)` for each index `(B,)`; images in uint8. No random draws if None."""


@dataclass(frozen=True, eq=False)
class Part:
    """Examples in memory: uint8 images `(N, H, W, C)` or float32 vectors `(N, F)`, their labels and groups.

    Strides may be any: CIFAR's images are a view of the file's layout, channels first, and batches are
    gathered from there without another copy.

    >>> part = Part(torch.zeros(5, 8, 8, 1, dtype=torch.uint8), torch.tensor([0, 1, 2, 1, 0]))
    >>> len(part), part.shape, part.take(torch.tensor([1, 3])).labels
    (5, (1, 8, 8), tensor([1, 1]))
    """

    inputs: Tensor
    labels: Tensor
    groups: Tensor | None = None

    def __post_init__(self) -> None:
        if (self.inputs.dtype, self.inputs.ndim) not in {(torch.uint8, 4), (torch.float32, 2)}:
            got = f"{self.inputs.dtype} {tuple(self.inputs.shape)}"
            raise InputError(f"inputs must be uint8 (N, H, W, C) or float32 (N, F), got {got}")
        for name, column in (("labels", self.labels), ("groups", self.groups)):
            if column is not None and (column.dtype != torch.int64 or column.shape != self.inputs.shape[:1]):
                got = f"{column.dtype} {tuple(column.shape)}"
                raise InputError(f"{name} must be int64 ({len(self.inputs)},), got {got}")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._rows.shape[1:])

    @property
    def _rows(self) -> Tensor:
        """The inputs as a view with channels first: `(N, C, H, W)` or `(N, F)`."""
        return self.inputs.permute(0, 3, 1, 2) if self.inputs.ndim == 4 else self.inputs

    def take(self, index: Tensor) -> "Part":
        rows = self._rows.index_select(0, index)
        groups = None if self.groups is None else self.groups[index]
        return Part(rows.permute(0, 2, 3, 1) if rows.ndim == 4 else rows, self.labels[index], groups)

    def read(self, batches: Sequence[Tensor], draws: Draws | None = None) -> Iterator[Tensor]:
        rows = self._rows
        for index in batches:
            yield rows.index_select(0, index.to(rows.device))


@dataclass(frozen=True)
class DataSet:
    """A named data set; labels are indices into `classes`, groups into `group_names`."""

    name: str
    classes: tuple[str, ...]
    train: Examples
    test: Examples
    group_names: tuple[str, ...] | None = None
