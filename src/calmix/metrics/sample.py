"""A sample of predictions, read in blocks of rows that fit the cache and checked as they are read."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from calmix.errors import InputError
from calmix.metrics.checks import (
    SUM_TOLERANCE,
    Array,
    check_array,
    check_count,
    check_length,
    check_range,
    check_rows,
)

BLOCK = 1 << 17  # values of a block: with its float64 copy and its cells about 3 MB
CHUNK = 1 << 20  # values of a chunk of columns


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive examples on the CPU: probs (B, C) in float32 or float64, labels (B,), group (B,)."""

    probs: Tensor
    labels: Tensor
    group: Tensor

    @property
    def narrow(self) -> bool:
        return self.probs.dtype == torch.float32

    @cached_property
    def confidence(self) -> Tensor:
        """The largest probability of each row, (B,)."""
        return self.probs.amax(1)

    @cached_property
    def label_probability(self) -> Tensor:
        """The probability of each row's label, (B,)."""
        return self.probs.gather(1, self.labels[:, None])[:, 0]

    @cached_property
    def hit(self) -> Tensor:
        """Whether the first largest probability of each row is its label's, bool (B,).

        The label's being the largest settles it, unless another is as large and comes first. Two as large as
        each other are at most one half: only there is it looked for, and only a tie is worth an argmax.
        """
        hit = self.label_probability == self.confidence
        # NumPy finds and takes rows two or three times as fast as torch.
        doubtful = np.flatnonzero(hit & (self.confidence <= 0.5 + SUM_TOLERANCE))
        if len(doubtful):
            probs = torch.from_numpy(self.probs.numpy().take(doubtful, 0))
            largest = probs == torch.from_numpy(self.confidence.numpy().take(doubtful))[:, None]
            if largest.count_nonzero().item() > len(doubtful):
                hit[doubtful] = probs.argmax(1) == self.labels[doubtful]
        return hit


class Sample:
    """Predictions and what came true: probs (N, C), labels (N,), and optionally a group (N,) of each example.

    Everything is computed on the CPU, block by block, wherever the arrays are: the same numbers come from
    every device, also from one without float64, and a memory-mapped array is never read whole.
    """

    def __init__(
        self, probs: Array, labels: Array, group: Array | None = None, num_groups: int | None = None
    ):
        check_array("probs", probs, "examples", "classes")
        check_array("labels", labels, "examples", integers=True)
        check_length("labels", labels, probs.shape[0])
        self.size: int = probs.shape[0]
        self.classes: int = probs.shape[1]
        self.groups = self.classes
        self._probs, self._labels, self._group = probs, labels, group
        if group is None:
            if num_groups is not None:
                raise InputError(f"num_groups is {num_groups}, but there is no group: give both or neither")
            return
        check_array("group", group, "examples", integers=True)
        check_length("group", group, self.size)
        self.groups = int(integers(group).max()) + 1 if num_groups is None else num_groups
        check_count("num_groups", self.groups)

    def blocks(self, rows: int | None = None) -> Iterator[Block]:
        """The sample in blocks of `rows` examples, checked; as many as fit the cache where none are given."""
        rows = rows or max(1, BLOCK // self.classes)
        for start in range(0, self.size, rows):
            part = slice(start, start + rows)
            probs, labels = floats(self._probs[part]), integers(self._labels[part])
            check_rows(probs, start)
            check_range("labels", labels, self.classes, start)
            group = labels
            if self._group is not None:
                group = integers(self._group[part])
                check_range("group", group, self.groups, start)
            yield Block(probs, labels, group)

    def whole(self) -> Block:
        """The sample as one block; it shares the memory of what was given where that lies on the CPU."""
        self.check()
        labels = integers(self._labels)
        return Block(floats(self._probs), labels, labels if self._group is None else integers(self._group))

    def check(self) -> None:
        for _ in self.blocks():
            pass

    def columns(self) -> Iterator[Tensor]:
        """The probabilities class by class, (N,) each; several are read at once, as rows are contiguous."""
        self.check()
        width = max(1, CHUNK // self.size)
        for start in range(0, self.classes, width):
            yield from floats(self._probs[:, start : start + width].T).contiguous()

    def confidences(self) -> Tensor:
        """The largest probability of every row, (N,)."""
        return torch.cat([block.confidence for block in self.blocks()])


def floats(array: Array) -> Tensor:
    """As a CPU tensor, float32 or float64; a narrower type is widened."""
    tensor = _tensor(array)
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def integers(array: Array) -> Tensor:
    """As a CPU tensor of int64."""
    return _tensor(array).long()


def _tensor(array: Array) -> Tensor:
    if isinstance(array, Tensor):
        return array.detach().cpu()
    # torch has no type for other byte orders, nor for floats longer than float64,
    array = array.astype(
        np.float64 if array.dtype.itemsize > 8 else array.dtype.newbyteorder("="), copy=False
    )
    # and shares memory only with an array that it may write to and that runs forwards.
    shared = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return torch.from_numpy(array if shared else array.copy())
