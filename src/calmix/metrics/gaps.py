"""Accuracy minus confidence: per bin of confidence, per true class, per group."""

from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.metrics.binning import Cells, Statistic, Terms, count_by_hit
from calmix.metrics.checks import Array
from calmix.metrics.errors import ece_statistic
from calmix.metrics.sample import Block, Sample


@dataclass(frozen=True, eq=False)
class Reliability:
    """One entry per bin; accuracy, confidence and gap of an empty bin are nan.

    `edges` are the upper edges: bin m holds edges[m-1] < p <= edges[m], the first starts at 0. A positive
    gap = accuracy - confidence means under-confidence.
    """

    edges: Tensor
    count: Tensor
    accuracy: Tensor
    confidence: Tensor
    gap: Tensor


def reliability(
    probs: Array, labels: Array, *, num_bins: int = 15, ignore_index: int | None = None
) -> Reliability:
    """Accuracy and confidence in bins of equal width of the largest probability: the bins of `ece`.

    >>> import torch
    >>> diagram = reliability(torch.tensor([[0.75, 0.25], [0.25, 0.75]]), torch.tensor([0, 0]), num_bins=2)
    >>> diagram.count.tolist(), diagram.gap.tolist()
    ([0, 2], [nan, -0.25])
    """
    sample = Sample(probs, labels, pixels=True, ignore_index=ignore_index)
    return reliability_of(ece_statistic(sample, num_bins=num_bins).sum(sample.blocks()))


def class_gap(
    probs: Array,
    labels: Array,
    *,
    group: Array | None = None,
    num_groups: int | None = None,
    ignore_index: int | None = None,
) -> Tensor:
    """Accuracy minus mean confidence over the examples of each true class (C,), or of each group.

    Positive for an under-confident class, nan for a class without examples. `num_groups` is by default the
    largest group plus one.

    >>> import torch
    >>> class_gap(torch.tensor([[0.75, 0.25, 0], [0.25, 0.75, 0]]), torch.tensor([0, 0])).tolist()
    [-0.25, nan, nan]
    """
    sample = Sample(probs, labels, group, num_groups, pixels=True, ignore_index=ignore_index)
    return gap_by_bin(class_gap_statistic(sample).sum(sample.blocks()))


def class_gap_statistic(sample: Sample) -> Statistic:
    def terms(block: Block) -> Terms:
        group = block.group
        return Terms(group[:, None], block.confidence.double()[:, None], group, block.hit.double())

    def sums(block: Block) -> Tensor:
        cell = torch.add(block.group, block.hit, alpha=sample.groups)
        return count_by_hit(cell, block.confidence.double(), sample.groups)

    return Statistic((1, sample.groups), terms, gap_by_bin, lambda gap: gap, sums)


def gap_by_bin(cells: Cells) -> Tensor:
    return ((cells.hits - cells.total) / cells.size)[..., 0, :]


def reliability_of(cells: Cells) -> Reliability:
    count, total, hits = (part[0] for part in cells)
    edges = torch.arange(1, len(count) + 1, dtype=torch.float64) / len(count)
    return Reliability(edges, count.long(), hits / count, total / count, (hits - total) / count)
