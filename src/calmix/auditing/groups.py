"""Gaps by class or group, worst first."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.auditing.gaps import gap_intervals
from calmix.metrics import Interval


@dataclass(frozen=True)
class GroupGap:
    """The examples of a true class, or of a group; `direction` is "unclear" where the interval holds 0."""

    name: str
    examples: int
    accuracy: float
    gap: Interval
    direction: str


def group_gaps(
    confidence: Tensor, hit: Tensor, group: Tensor, names: Sequence[str], *, level: float = 0.95
) -> list[GroupGap]:
    """The gap of every group that has examples, the one that is furthest from 0 for sure first.

    Among many groups one is off by chance: the intervals are Bonferroni's, so that all of them hold at once
    with probability `level`.
    """
    count = torch.bincount(group, minlength=len(names))
    present = count.nonzero()[:, 0].tolist()
    each = 1 - (1 - level) / len(present)
    gap, low, high = (part.tolist() for part in gap_intervals(confidence, hit, group, len(names), level=each))
    right = torch.zeros(len(names), dtype=torch.float64).index_add_(0, group, hit)
    gaps = []
    for i in present:
        estimate = Interval(gap[i], low[i], high[i])
        examples = int(count[i])
        accuracy = float(right[i]) / examples
        gaps.append(GroupGap(names[i], examples, accuracy, estimate, _direction(estimate)))
    return sorted(gaps, key=lambda g: (-max(g.gap.low, -g.gap.high, 0), -abs(g.gap.value)))


def _direction(gap: Interval) -> str:
    if gap.high < 0:
        return "over-confident"
    return "under-confident" if gap.low > 0 else "unclear"
