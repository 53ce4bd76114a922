"""Gaps between accuracy and confidence, with normal intervals."""

import torch
from torch import Tensor

from calmix.metrics import Interval
from calmix.metrics.sample import Sample


def top_label(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The confidence of each example, and whether it was right: two (N,) in float64."""
    blocks = list(Sample(probs, labels).blocks())
    confidence = torch.cat([block.confidence for block in blocks]).double()
    return confidence, torch.cat([block.hit for block in blocks]).double()


def gap_intervals(
    confidence: Tensor, hit: Tensor, group: Tensor, num_groups: int, *, level: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gap, low and high of each group, (num_groups,) each; nan where a group has no example.

    The gap is a mean of hit - confidence, so its interval is the normal one. Where nearly all examples are
    right that would claim too much (20 right of 20 has no spread at all), so z²/2 right and z²/2 wrong
    examples of the group's mean confidence are added first (Agresti and Coull 1998); with thousands of
    examples they do not show.
    """

    def mean(values: Tensor) -> Tensor:
        return torch.zeros(num_groups, dtype=torch.float64).index_add_(0, group, values) / count

    count = torch.bincount(group, minlength=num_groups).double()
    difference = hit - confidence
    gap, square, mean_confidence = mean(difference), mean(difference.square()), mean(confidence)
    z = float(torch.special.ndtri(torch.tensor((1 + level) / 2, dtype=torch.float64)))
    size = count + z**2
    centre = (count * gap + z**2 * (0.5 - mean_confidence)) / size
    spread = (
        count * square + z**2 * ((1 - mean_confidence).square() + mean_confidence.square()) / 2
    ) / size - centre.square()
    half = z * (spread / size).sqrt()
    return gap, (centre - half).clamp(min=-1), (centre + half).clamp(max=1)


def gap_interval(confidence: Tensor, hit: Tensor, *, level: float) -> Interval:
    """The gap of all examples together."""
    one_group = torch.zeros(len(hit), dtype=torch.long)
    gap, low, high = (float(end) for end in gap_intervals(confidence, hit, one_group, 1, level=level))
    return Interval(gap, low, high, level=level)
