"""Sums by cell, the one form behind every binned metric.

A cell is a bin of a class. For each cell three numbers are kept: how many values fell into it (`size`),
their sum (`total`), and how many came true (`hits`). They add over blocks, over processes, and under the
weights of a bootstrap; a metric is a function of them (`Statistic`).
"""

import bisect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from calmix.metrics.checks import check_count
from calmix.metrics.sample import Block, Sample

# Probabilities (B, V) in float64, and whether each of them is a float32 number -> bins (B, V), int64
Bins: TypeAlias = Callable[[Tensor, bool], Tensor]


class Cells(NamedTuple):
    """Sums by cell, each (..., classes, bins) in float64."""

    size: Tensor
    total: Tensor
    hits: Tensor


class Terms(NamedTuple):
    """What a block adds: V values for each example, and at most one cell in which it came true."""

    cell: Tensor  # (B, V)
    value: Tensor  # (B, V), float64
    hit_cell: Tensor  # (B,)
    hit: Tensor  # (B,), float64


@dataclass(frozen=True)
class Statistic:
    """What a metric adds up, in (classes, bins) cells, and what it makes of the sums.

    `terms` numbers the cells row by row; one number more, classes * bins, takes what is left out. `value` is
    the quantity on the scale where errors add, and `finish` takes it into the metric's range (a square root,
    a limit), so that the ends of an interval can be taken there too.
    """

    shape: tuple[int, int]
    terms: Callable[[Block], Terms]
    value: Callable[[Cells], Tensor]
    finish: Callable[[Tensor], Tensor]

    def zeros(self, *more: int) -> Tensor:
        """Sums of nothing: (3, cells + 1, ...)."""
        return torch.zeros(3, self.shape[0] * self.shape[1] + 1, *more, dtype=torch.float64)

    def add(self, sums: Tensor, block: Block) -> None:
        """Add a block to `sums` (3, cells + 1)."""
        cell, value, hit_cell, hit = self.terms(block)
        cell = cell.reshape(-1)
        sums[0].scatter_add_(0, cell, sums.new_ones(1).expand_as(cell))
        sums[1].scatter_add_(0, cell, value.reshape(-1))
        sums[2].scatter_add_(0, hit_cell, hit)

    def cells(self, sums: Tensor) -> Cells:
        """Sums (3, cells + 1, ...) as (..., classes, bins)."""
        kept = sums[:, :-1].movedim(1, -1)
        return Cells(*kept.reshape(*kept.shape[:-1], *self.shape))

    def sum(self, blocks: Iterable[Block]) -> Cells:
        sums = self.zeros()
        for block in blocks:
            self.add(sums, block)
        return self.cells(sums)

    def of(self, sample: Sample) -> float:
        """The metric."""
        return float(self.finish(self.value(self.sum(sample.blocks()))))


def equal_width(num_bins: int) -> Bins:
    """Bin m holds (m-1)/M < p <= m/M; 0 joins the first bin, what rounding puts above 1 the last."""
    edges = torch.arange(1, num_bins, dtype=torch.float64) / num_bins

    def bins(p: Tensor, narrow: bool) -> Tensor:
        if not narrow:
            return torch.bucketize(p.contiguous(), edges)
        # A float32 times a number below 2^29 is exact in float64, and too coarse to fall between m/M and its
        # rounded edge: the arithmetic is the comparison, at a seventh of its time.
        return p.mul(num_bins).ceil_().sub_(1).clamp_(0, num_bins - 1).long()

    return bins


def equal_mass(edges: Tensor) -> Bins:
    """Bins below and including each upper edge, edges (V, M) ascending."""
    return lambda p, narrow: torch.searchsorted(edges, p.T.contiguous()).T


def mass_edges(values: Iterable[Tensor], num_bins: int, above: float = -math.inf) -> Tensor:
    """Upper edges (V, num_bins) of runs of equal length, from the values (N,) above a threshold, V times.

    The runs are those of `numpy.array_split` on the sorted values, each edge the last value of its run; equal
    values share a bin, because a bin is chosen by value.
    """
    found = []
    for column in values:
        ordered = np.sort(column.numpy())
        # key=float: a float32 is compared as the float64 it stands for
        kept = ordered[bisect.bisect_right(ordered, above, key=float) :]
        size, longer = divmod(len(kept), num_bins)
        ends = np.cumsum([size + 1] * longer + [size] * (num_bins - longer)) - 1
        found.append(kept[ends].astype(np.float64) if len(kept) else np.full(num_bins, np.inf))
    return torch.from_numpy(np.stack(found))


def top_label(bins: Bins) -> Callable[[Block], Terms]:
    """Each row adds its confidence, and whether its prediction was right."""

    def terms(block: Block) -> Terms:
        confidence = block.confidence.double()[:, None]
        cell = bins(confidence, block.narrow)
        return Terms(cell, confidence, cell[:, 0], block.hit.double())

    return terms


def every_class(bins: Bins, num_bins: int, above: float = -math.inf) -> Callable[[Block], Terms]:
    """Each row adds all its probabilities above a threshold, and its label came true in the label's class."""

    def terms(block: Block) -> Terms:
        value = block.probs.double()
        classes = value.shape[1]
        cell = bins(value, block.narrow) + torch.arange(0, classes * num_bins, num_bins)
        if above > -math.inf:
            cell = cell.masked_fill(value <= above, classes * num_bins)
        hit_cell = cell.gather(1, block.labels[:, None])[:, 0]
        return Terms(cell, value, hit_cell, value.new_ones(len(value)))

    return terms


def each_row(value: Callable[[Block], Tensor]) -> Callable[[Block], Terms]:
    """Each row adds one value to the only cell."""

    def terms(block: Block) -> Terms:
        only, added = torch.zeros_like(block.labels), value(block).double()
        return Terms(only[:, None], added[:, None], only, torch.zeros_like(added))

    return terms


def bins_of_equal_mass(
    sample: Sample, num_bins: int, classwise: bool
) -> tuple[tuple[int, int], Callable[[Block], Terms]]:
    """Shape and terms of a statistic over bins of equal mass: of the top label, or of every class."""
    check_count("num_bins", num_bins)
    if classwise:
        edges = mass_edges(sample.columns(), num_bins)
        return (sample.classes, num_bins), every_class(equal_mass(edges), num_bins)
    return (1, num_bins), top_label(equal_mass(mass_edges([sample.confidences()], num_bins)))
