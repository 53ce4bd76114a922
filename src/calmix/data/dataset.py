"""Data sets: a training and a test part, each a few tensors instead of one object per image."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from calmix.errors import InputError

Kind: TypeAlias = Literal["image", "vector", "tensor", "tokens"]


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
        """Shape of one network input: `(C, H, W)`, `(F,)`, `(L,)`, or any other of floats."""

    def __len__(self) -> int: ...

    def take(self, index: Tensor) -> "Examples":
        """The examples at `index`, renumbered from 0."""

    def read(self, batches: Sequence[Tensor], draws: Draws | None = None) -> Iterator[Tensor]:
        """Inputs `(B, *shape)` for each index `(B,)`; images in uint8. No random draws if None."""


@dataclass(frozen=True, eq=False)
class Part:
    """Examples in memory with their labels and groups.

    Inputs are uint8 images `(N, H, W, C)`, float32 vectors `(N, F)` or tensors of any shape, taken as they
    are (images as floats have their channels first), or int64 token sequences `(N, L)`.

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
        dtype, ndim = self.inputs.dtype, self.inputs.ndim
        if (dtype, ndim) not in {(torch.uint8, 4), (torch.int64, 2)} and (dtype != torch.float32 or ndim < 2):
            got = f"{dtype} {tuple(self.inputs.shape)}"
            raise InputError(
                "inputs must be uint8 images (N, H, W, C), float32 (N, ...) or int64 tokens (N, L), "
                f"got {got}"
            )
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
        """The inputs as the network takes them: uint8 images as a view with channels first."""
        return self.inputs.permute(0, 3, 1, 2) if self.inputs.dtype == torch.uint8 else self.inputs

    @property
    def kind(self) -> Kind:
        if self.inputs.dtype == torch.uint8:
            return "image"
        if self.inputs.dtype == torch.int64:
            return "tokens"
        return "vector" if self.inputs.ndim == 2 else "tensor"

    def take(self, index: Tensor) -> "Part":
        rows = self._rows.index_select(0, index)
        groups = None if self.groups is None else self.groups[index]
        return Part(
            rows.permute(0, 2, 3, 1) if rows.dtype == torch.uint8 else rows, self.labels[index], groups
        )

    def read(self, batches: Sequence[Tensor], draws: Draws | None = None) -> Iterator[Tensor]:
        rows = self._rows
        for index in batches:
            yield rows.index_select(0, index.to(rows.device))


@dataclass(frozen=True)
class DataSet:
    """A named data set; labels are indices into `classes`, groups into `group_names`.

    Without a `validation` part, one is split off the training part.
    """

    name: str
    classes: tuple[str, ...]
    train: Examples
    test: Examples
    group_names: tuple[str, ...] | None = None
    validation: Examples | None = None


def kind_of(part: Examples) -> Kind:
    """What the examples are: uint8 images (which files hold), float vectors or tensors, or token ids.

    >>> kind_of(Part(torch.zeros(5, 3), torch.zeros(5, dtype=torch.int64)))
    'vector'
    """
    kind: Kind = getattr(part, "kind", "image")
    return kind
