"""A sample of predictions, read in blocks of rows and validated as they are read."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calmix.errors import InputError
from calmix.metrics import checks
from calmix.metrics.checks import Array, sum_tolerance
from calmix.metrics.trailing import class_rows, labelled_rows

BLOCK = 1 << 19  # values in a block: about 12 MB with its float64 copy and its cells; fewer cost more calls
CHUNK = 1 << 20  # values in a chunk of columns
MAX_TIE = (1 + checks.MAX_SUM_TOLERANCE) / 2  # two equal largest probabilities are at most that


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive examples on the CPU: probs (B, C) in float32 or float64, labels (B,), group (B,)."""

    probs: Tensor
    labels: Tensor
    group: Tensor
    weights: Tensor | None = None  # (B,), float64

    @property
    def narrow(self) -> bool:
        return self.probs.dtype == torch.float32

    @cached_property
    def doubles(self) -> Tensor:
        """The probabilities in float64, (B, C)."""
        return self.probs.double()

    @cached_property
    def confidence(self) -> Tensor:
        """The largest probability of each row, (B,)."""
        if self.probs.shape[1] == 2:  # in a third of the time of a reduction along rows
            return torch.maximum(*self.probs.unbind(1))
        return self.probs.amax(1)

    @cached_property
    def label_probability(self) -> Tensor:
        """The probability of each row's label, (B,)."""
        return self.probs.gather(1, self.labels[:, None])[:, 0]

    @cached_property
    def hit(self) -> Tensor:
        """Whether the first largest probability of each row is its label's, bool (B,).

        A label with the largest probability is a hit, unless a class before it has the same probability. Two
        equal probabilities are at most one half, so only those rows are searched for ties, and only ties need
        an argmax.
        """
        if self.probs.shape[1] == 2:
            first, second = self.probs.unbind(1)
            return (first >= second) == (self.labels == 0)
        hit = self.label_probability == self.confidence
        # NumPy's flatnonzero, take, repeat and count are several times as fast as torch's, and numbers side
        # by side are compared in a quarter of the time of a broadcast along rows.
        candidates = np.flatnonzero((hit & (self.confidence <= MAX_TIE)).numpy())
        if len(candidates):
            probs = self.probs.numpy().take(candidates, 0)
            top = self.confidence.numpy().take(candidates).repeat(probs.shape[1])
            if np.count_nonzero(probs.reshape(-1) == top) > len(candidates):
                hit[candidates] = torch.from_numpy(probs).argmax(1) == self.labels[candidates]
        return hit

    @property
    def correct(self) -> Tensor:
        """Whether the predicted class is the label, bool (B,)."""
        return self.hit

    @property
    def columns(self) -> Tensor:
        """The probability of every class, (B, C)."""
        return self.probs

    @property
    def class_hit(self) -> tuple[Tensor, Tensor]:
        """The column of `probs` in which each row may have a hit, and whether it has one, (B,) each."""
        return self.labels, self.probs.new_ones(len(self.labels), dtype=torch.float64)


class BinaryBlock(Block):
    """Probabilities P(y = 1), (B, 1): they are judged themselves, whichever class is the likelier."""

    @cached_property
    def confidence(self) -> Tensor:
        return self.probs[:, 0]

    @cached_property
    def label_probability(self) -> Tensor:
        return self.columns.gather(1, self.labels[:, None])[:, 0]

    @cached_property
    def hit(self) -> Tensor:
        return self.labels == 1

    @property
    def correct(self) -> Tensor:
        return (self.confidence > 0.5) == self.hit

    @property
    def columns(self) -> Tensor:
        return torch.cat([1 - self.doubles, self.doubles], dim=1)

    @property
    def class_hit(self) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(self.labels), self.labels.double()


class Sample:
    """Predictions and true labels: probs (N, C) or P(y = 1) (N,), labels (N,), and optionally a group and a
    weight (N,) for each example.

    With `pixels`, probs may be (N, C, ...) and the others (N, ...): every pixel is a row, and those whose
    label is `ignore_index` are left out.

    Everything is computed on the CPU, block by block, whatever the arrays' device: results do not depend on
    the device, which may lack float64, and a memory-mapped array is never read whole.
    """

    def __init__(
        self,
        probs: Array,
        labels: Array,
        group: Array | None = None,
        num_groups: int | None = None,
        weights: Array | None = None,
        *,
        pixels: bool = False,
        ignore_index: int | None = None,
    ):
        if pixels:
            probs, labels, group, weights = _rows(probs, labels, group, weights, ignore_index)
        checks.check_probs(probs)
        checks.check_array("labels", labels, "examples", integers=True)
        checks.check_length("labels", labels, probs.shape[0])
        self.size: int = probs.shape[0]
        self.binary = probs.ndim == 1
        self.classes: int = 1 if self.binary else probs.shape[1]  # columns of probabilities
        self.labels = 2 if self.binary else self.classes
        self.groups = self.labels
        self._tolerance = sum_tolerance(probs)
        self._probs, self._labels, self._group = probs[:, None] if self.binary else probs, labels, group
        self._weights = None if weights is None else relative_weights(weights, self.size)
        if group is None:
            if num_groups is not None:
                raise InputError(f"num_groups is {num_groups}, but group is None: give both or neither")
            return
        checks.check_array("group", group, "examples", integers=True)
        checks.check_length("group", group, self.size)
        self.groups = int(integers(group).max()) + 1 if num_groups is None else num_groups
        checks.check_count("num_groups", self.groups)

    @property
    def narrow(self) -> bool:
        """Whether blocks hold float32."""
        return floats(self._probs[:0]).dtype == torch.float32

    def blocks(self, rows: int | None = None) -> Iterator[Block]:
        """The sample in validated blocks of `rows` examples; by default of BLOCK values."""
        rows = rows or max(1, BLOCK // self.classes)
        for start in range(0, self.size, rows):
            part = slice(start, start + rows)
            probs, labels = floats(self._probs[part]), integers(self._labels[part])
            if self.binary:
                checks.check_unit(probs, start)
            else:
                checks.check_rows(probs, start, self._tolerance)
            checks.check_range("labels", labels, self.labels, start)
            group = labels
            if self._group is not None:
                group = integers(self._group[part])
                checks.check_range("group", group, self.groups, start)
            weights = None if self._weights is None else self._weights[part]
            yield (BinaryBlock if self.binary else Block)(probs, labels, group, weights)

    def whole(self) -> Block:
        """The sample as one block of all classes; it shares the memory of arrays (N, C) on the CPU."""
        self.check()
        probs, labels = floats(self._probs), integers(self._labels)
        group = labels if self._group is None else integers(self._group)
        return Block(BinaryBlock(probs, labels, group).columns if self.binary else probs, labels, group)

    def check(self) -> None:
        for _ in self.blocks():
            pass

    def columns(self) -> Iterator[Tensor]:
        """The probabilities class by class, (N,) each; read several at once, as rows are contiguous."""
        self.check()
        width = max(1, CHUNK // self.size)
        for start in range(0, self.classes, width):
            yield from floats(self._probs[:, start : start + width].T).contiguous()

    def confidences(self) -> Tensor:
        """The largest probability of every row, (N,)."""
        return torch.cat([block.confidence for block in self.blocks()])


def _rows(
    probs: Array, labels: Array, group: Array | None, weights: Array | None, ignore_index: int | None
) -> Any:
    """Rows of pixels, (N, C, ...) -> (N * ..., C), without those to ignore."""
    if getattr(probs, "ndim", 2) == getattr(labels, "ndim", 1) + 1 > 2:
        axes = ("examples", "classes", *(f"axis {k}" for k in range(2, probs.ndim)))
        checks.check_array("probs", probs, *axes)
        shape = (probs.shape[0], *probs.shape[2:])
        for name, column in (("labels", labels), ("group", group), ("weights", weights)):
            if column is not None and tuple(getattr(column, "shape", ())) != shape:
                given = tuple(getattr(column, "shape", ()))
                raise InputError(
                    f"{name} has shape {given}, probs {tuple(probs.shape)}: give one for each pixel, "
                    f"{shape}; the classes are axis 1 of probs"
                )
        probs, labels = class_rows(probs), labels.reshape(-1)
        group, weights = (None if column is None else column.reshape(-1) for column in (group, weights))
    if ignore_index is not None:
        checks.check_array("labels", labels, "examples", integers=True)
        checks.check_length("labels", labels, probs.shape[0])
        kept = labelled_rows(labels, ignore_index)
        if kept is not None:
            return [None if c is None else _take(c, kept) for c in (probs, labels, group, weights)]
    return probs, labels, group, weights


def _take(array: Any, rows: Any) -> Any:
    """The rows of an array, whichever of the two kinds the positions are."""
    if isinstance(array, Tensor):
        return array[torch.as_tensor(rows, device=array.device)]
    return array[np.asarray(rows.cpu() if isinstance(rows, Tensor) else rows)]


def relative_weights(weights: Array, examples: int) -> Tensor:
    """Weights (N,) in float64, divided by their mean."""
    whole = isinstance(weights, Tensor) and not weights.is_floating_point() and weights.dtype != torch.bool
    whole = whole or (isinstance(weights, np.ndarray) and weights.dtype.kind in "iu")
    checks.check_array("weights", weights, "examples", integers=whole)
    checks.check_length("weights", weights, examples)
    numbers = _tensor(weights).double()
    wrong = ~((numbers >= 0) & numbers.isfinite())
    if wrong.any():
        at = int(wrong.nonzero()[0])
        raise InputError(f"weights[{at}] is {float(numbers[at])}: a weight must be finite, and at least 0")
    if not numbers.any():
        raise InputError("weights are all 0: at least one must be positive")
    numbers = numbers / numbers.max()
    return numbers / numbers.mean()


def floats(array: Array) -> Tensor:
    """A CPU tensor in float32 or float64; narrower types are widened."""
    tensor = _tensor(array)
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def integers(array: Array) -> Tensor:
    """A CPU tensor in int64."""
    return _tensor(array).long()


def _tensor(array: Array) -> Tensor:
    if isinstance(array, Tensor):
        return array.detach().cpu()
    # torch has neither other byte orders nor floats longer than float64.
    kind = np.dtype(np.float64) if array.dtype.itemsize > 8 else array.dtype.newbyteorder("=")
    array = array.astype(kind, copy=False)
    # It shares memory only with writeable arrays without negative strides.
    shared = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return torch.from_numpy(array if shared else array.copy())
