"""What a data set is: a training and a test part, each a few tensors instead of one object for each image."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from calmix.errors import InputError


@dataclass(frozen=True)
class Draws:
    """The key of a part's own random draws: row m of an index `(len(members), B)` belongs to `members[m]`."""

    seed: int
    epoch: int
    members: tuple[int, ...]


class Examples(Protocol):
    """What batches need of a part, be it in memory (`Part`) or decoded from files (`ImageFiles`)."""

    @property
    def labels(self) -> Tensor:
        """`(N,)` int64."""

    @property
    def groups(self) -> Tensor | None:
        """`(N,)` int64, or None where the set has no groups besides its classes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example as a network sees it: `(C, H, W)` or `(F,)`."""

    def __len__(self) -> int: ...

    def take(self, index: Tensor) -> "Examples":
        """The examples at `index`, which get the positions 0 to len(index) - 1."""

    def read(self, batches: Sequence[Tensor], draws: Draws | None = None) -> Iterator[Tensor]:
        """For each index `(..., B)` its inputs `(..., B, *shape)`; images as uint8. None: no random draws."""


@dataclass(frozen=True, eq=False)
class Part:
    """Examples in memory: uint8 images `(N, H, W, C)` or float32 vectors `(N, F)`, their labels and groups.

    Only shapes are promised, not strides: CIFAR's images are a view of the file's own order, channels first,
    and are gathered from there without a copy in between.

    >>> part = Part(torch.zeros(5, 8, 8, 1, dtype=torch.uint8), torch.tensor([0, 1, 2, 1, 0]))
    >>> len(part), part.shape, part.take(torch.tensor([1, 3])).labels
    (5, (1, 8, 8), tensor([1, 1]))
    """

    inputs: Tensor
    labels: Tensor
    groups: Tensor | None = None

    def __post_init__(self) -> None:
        found = f"{self.inputs.dtype} {tuple(self.inputs.shape)}"
        if (self.inputs.dtype, self.inputs.ndim) not in {(torch.uint8, 4), (torch.float32, 2)}:
            raise InputError(f"inputs: {found}; give uint8 (N, H, W, C) or float32 (N, F)")
        for name, column in (("labels", self.labels), ("groups", self.groups)):
            if column is not None and (column.dtype != torch.int64 or column.shape != self.inputs.shape[:1]):
                raise InputError(
                    f"{name}: {column.dtype} {tuple(column.shape)}; inputs are {found}, so give int64 (N,)"
                )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._rows.shape[1:])

    @property
    def _rows(self) -> Tensor:
        """The inputs as networks take them, channels first: `(N, C, H, W)` or `(N, F)`; a view."""
        return self.inputs.permute(0, 3, 1, 2) if self.inputs.ndim == 4 else self.inputs

    def take(self, index: Tensor) -> "Part":
        rows = self._rows.index_select(0, index)
        return Part(
            rows.permute(0, 2, 3, 1) if rows.ndim == 4 else rows,
            self.labels[index],
            None if self.groups is None else self.groups[index],
        )

    def to(self, device: torch.device | str) -> "Part":
        """The same examples on a device, so that batches are gathered there, not copied over at each step."""
        groups = None if self.groups is None else self.groups.to(device)
        return replace(self, inputs=self.inputs.to(device), labels=self.labels.to(device), groups=groups)

    def read(self, batches: Sequence[Tensor], draws: Draws | None = None) -> Iterator[Tensor]:
        rows = self._rows
        for index in batches:
            taken = rows.index_select(0, index.flatten().to(rows.device))
            yield taken.view(*index.shape, *rows.shape[1:])


@dataclass(frozen=True)
class DataSet:
    """A named set; labels are positions in `classes`, groups, where there are any, in `group_names`."""

    name: str
    classes: tuple[str, ...]
    train: Examples
    test: Examples
    group_names: tuple[str, ...] | None = None
