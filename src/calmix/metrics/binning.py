"""Sums per cell, from which every binned metric is computed.

A cell is a bin of a class. Each cell has three sums: the number of values (`size`), their sum (`total`), and
the number of correct ones (`hits`). The sums add over blocks, over processes, and under the weights of a
bootstrap; a metric is a function of them (`Statistic`).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from calmix.metrics.checks import check_count
from calmix.metrics.sample import Block, Sample

# Probabilities (B, V) in float64, and whether each of them is a float32 number -> bins (B, V), also float64:
# adding to rows of integers takes torch two to four times as long.
Bins: TypeAlias = Callable[[Tensor, bool], Tensor]


class Cells(NamedTuple):
    """Sums per cell, each (..., classes, bins) in float64."""

    size: Tensor
    total: Tensor
    hits: Tensor


class Terms(NamedTuple):
    """What a block adds to the sums: V values for each example, and at most one hit."""

    cell: Tensor  # (B, V)
    value: Tensor  # (B, V), float64
    hit_cell: Tensor  # (B,)
    hit: Tensor  # (B,), float64


@dataclass(frozen=True)
class Statistic:
    """A metric as sums over (classes, bins) cells, and a function of the sums.

    `terms` numbers the cells row by row; values that are left out go to one extra cell, classes * bins.
    `value` is the quantity before it is brought into the metric's range, and `finish` does that (square root,
    clipping). Intervals are computed on `value`, and their ends are finished like the metric. `shortcut` has
    the sums of a block without weights, (3, cells), for less than its terms would cost. Where `value` needs
    the number of values of a class but not of each of its bins, and none is left out, `sizes` False puts it
    into the first bin: counting by bin takes a quarter of the time of `sce`.
    """

    shape: tuple[int, int]
    terms: Callable[[Block], Terms]
    value: Callable[[Cells], Tensor]
    finish: Callable[[Tensor], Tensor]
    shortcut: Callable[[Block], Tensor] | None = None
    sizes: bool = True

    def zeros(self, *trailing: int) -> Tensor:
        """Empty sums, (3, cells + 1, *trailing)."""
        return torch.zeros(3, self.shape[0] * self.shape[1] + 1, *trailing, dtype=torch.float64)

    def add(self, sums: Tensor, block: Block) -> None:
        """Add a block to `sums` (3, cells + 1)."""
        if self.shortcut is not None and block.weights is None:
            sums[:, :-1] += self.shortcut(block)
            return
        cell, value, hit_cell, hit = self.terms(block)
        size = sums.new_ones(1)
        if block.weights is not None:
            size = block.weights[:, None].expand_as(value).reshape(-1)
            value = torch.where(block.weights[:, None] > 0, value * block.weights[:, None], 0)
            hit = hit * block.weights
        cell = cell.reshape(-1)
        if self.sizes:
            sums[0].scatter_add_(0, cell, size.expand_as(cell))
        else:
            of_class = len(value) if block.weights is None else block.weights.sum()
            sums[0, :-1].view(self.shape)[:, 0] += of_class
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
        """The metric of a sample."""
        return float(self.finish(self.value(self.sum(sample.blocks()))))


def equal_width(num_bins: int) -> Bins:
    """Bin m holds (m-1)/M < p <= m/M; 0 is in the first bin, values that rounding put above 1 in the last."""
    edges = torch.arange(1, num_bins, dtype=torch.float64) / num_bins

    near = num_bins * 1e-15  # several times the rounding of a product and of an edge

    def bins(p: Tensor, narrow: bool) -> Tensor:
        scaled = p.mul(num_bins)
        # A float32 times an integer below 2^29 is exact in float64, and float32 is too coarse for a value
        # between m/M and its rounded edge: the result is that of the comparison, in a seventh of the time.
        upper = scaled.ceil_() if narrow else scaled.ceil()
        beside = None
        if not narrow and len(p):  # products are rounded: beside an edge the comparison itself decides
            low, high = torch.aminmax(scaled.sub_(upper))
            if high.item() > -near or low.item() < near - 1:
                beside = (scaled > -near) | (scaled < near - 1)
        cell = upper.clamp_(1, num_bins).sub_(1)
        if beside is not None:
            cell[beside] = torch.bucketize(p[beside], edges).double()
        return cell

    return bins


def equal_mass(edges: Tensor) -> Bins:
    """A bin includes its upper edge; edges (V, M) ascending."""
    return lambda p, narrow: torch.searchsorted(edges, p.T.contiguous()).T.double()


def mass_edges(values: Iterable[Tensor], num_bins: int, above: float = -math.inf) -> Tensor:
    """Upper edges (V, num_bins) of bins of equal mass, for V columns of values (N,) above a threshold.

    The runs are those of `numpy.array_split` on the sorted values, each edge the last value of its run. Equal
    values share a bin, because the edges alone decide.
    """
    edges = []
    for column in values:
        array = column.numpy()
        kept = np.sort(array[array > np.float64(above)])  # a float32 is compared in float64
        size, longer = divmod(len(kept), num_bins)
        ends = np.cumsum([size + 1] * longer + [size] * (num_bins - longer)) - 1
        edges.append(kept[ends].astype(np.float64) if len(kept) else np.full(num_bins, np.inf))
    return torch.from_numpy(np.stack(edges))


def top_label(bins: Bins) -> Callable[[Block], Terms]:
    """Each row adds its confidence, and a hit if its prediction is correct."""

    def terms(block: Block) -> Terms:
        confidence = block.confidence.double()[:, None]
        cell = bins(confidence, block.narrow).long()
        return Terms(cell, confidence, cell[:, 0], block.hit.double())

    return terms


def top_label_sums(bins: Bins, num_bins: int) -> Callable[[Block], Tensor]:
    """The sums of `top_label` for less: values and hits are counted together."""

    def sums(block: Block) -> Tensor:
        confidence, hit = block.confidence.double(), block.hit.double()
        cell = bins(confidence[:, None], block.narrow)[:, 0]
        return count_by_hit(cell.add_(hit, alpha=num_bins).long(), confidence, num_bins)

    return sums


def count_by_hit(cell: Tensor, value: Tensor, cells: int) -> Tensor:
    """Sums (3, cells) of rows with one value each; the cell (B,) of a hit is `cells` further on."""
    size, total = value.new_zeros(2, 2 * cells)
    size.scatter_add_(0, cell, torch.ones_like(value))
    total.scatter_add_(0, cell, value)
    size, total = size.view(2, cells), total.view(2, cells)
    return torch.stack([size.sum(0), total.sum(0), size[1]])


def every_class(bins: Bins, num_bins: int, above: float = -math.inf) -> Callable[[Block], Terms]:
    """Each row adds its probabilities above a threshold, and a hit in its label's class."""

    def terms(block: Block) -> Terms:
        value = block.doubles
        classes = value.shape[1]
        first = torch.arange(0, classes * num_bins, num_bins, dtype=torch.float64)
        cell = bins(value, block.narrow).add_(first).long()
        if above > -math.inf:
            cell = cell.masked_fill(value <= above, classes * num_bins)
        column, hit = block.class_hit
        return Terms(cell, value, cell.gather(1, column[:, None])[:, 0], hit)

    return terms


def every_class_sums(classes: int, num_bins: int) -> Callable[[Block], Tensor] | None:
    """The sums of `every_class` for float32 and bins of equal width, the sizes all in the first bin: bin and
    class of a value in one multiplication and addition. None where that may not be exact."""
    width = num_bins + 2  # below the first bin is 0; above the last, what rounding put above 1
    first = torch.arange(0, classes * width, width, dtype=torch.float64)
    # Beside an edge a float32 times num_bins is a multiple of 2^-25 / num_bins, and a float64 has 53 bits.
    if classes * width * num_bins > 1 << 26:
        return None

    def sums(block: Block) -> Tensor:
        cell = torch.add(first, block.doubles, alpha=num_bins).ceil_().long()
        added = first.new_zeros(3, classes * width)
        column, hit = block.class_hit
        added[1].scatter_add_(0, cell.view(-1), block.doubles.view(-1))
        added[2].scatter_add_(0, cell.gather(1, column[:, None])[:, 0], hit)
        added = added.view(3, classes, width)
        added[..., 1] += added[..., 0]
        added[..., num_bins] += added[..., num_bins + 1]
        added[0, :, 1] = len(cell)
        return added[..., 1 : num_bins + 1].reshape(3, -1)

    return sums


def few_above(
    cell: Callable[[Tensor, Tensor, bool], Tensor], num_bins: int, above: float, *, rest: bool
) -> Callable[[Block], Tensor]:
    """The sums of `every_class` where few values are above a threshold: only those are looked at one by one.

    `cell` numbers the cells of values (K,) of the classes (K,). With `rest` the others are a class's first
    bin, otherwise they are left out.
    """
    narrow = np.float32(above)  # the largest float32 that is not above
    narrow = np.nextafter(narrow, np.float32(0)) if float(narrow) > above else narrow

    def sums(block: Block) -> Tensor:
        rows, classes = block.probs.shape
        shape = classes, num_bins
        probs = block.probs.contiguous().numpy().reshape(-1)
        found = np.flatnonzero(probs > (narrow if block.narrow else above))
        column, value = torch.from_numpy(found % classes), torch.from_numpy(probs[found]).double()
        place = cell(column, value, block.narrow)
        size, total = (place.bincount(w, classes * num_bins).double().view(shape) for w in (None, value))
        column, hit = block.class_hit
        value = block.doubles.gather(1, column[:, None])[:, 0]
        if rest:
            size[:, 0] = rows - size.sum(1)
            total[:, 0] = torch.where(size[:, 0] > 0, block.doubles.sum(0) - total.sum(1), 0)
        else:
            kept = value > above
            column, value, hit = column[kept], value[kept], hit[kept]
        hits = cell(column, value, block.narrow).bincount(hit, classes * num_bins).view(shape)
        return torch.stack([size, total, hits]).view(3, -1)

    return sums


def cell_of_equal_width(num_bins: int) -> Callable[[Tensor, Tensor, bool], Tensor]:
    bins = equal_width(num_bins)
    return lambda column, value, narrow: bins(value[:, None], narrow)[:, 0].long() + column * num_bins


def cell_of_equal_mass(edges: Tensor) -> Callable[[Tensor, Tensor, bool], Tensor]:
    def cell(column: Tensor, value: Tensor, narrow: bool) -> Tensor:
        return torch.searchsorted(edges[column], value[:, None])[:, 0] + column * edges.shape[1]

    return cell


def each_row(value: Callable[[Block], Tensor]) -> Callable[[Block], Terms]:
    """Each row adds one value to the only cell."""

    def terms(block: Block) -> Terms:
        cell, values = torch.zeros_like(block.labels), value(block).double()
        return Terms(cell[:, None], values[:, None], cell, torch.zeros_like(values))

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
