"""Intervals of gaps between accuracy and confidence, of rates and of means: closed forms."""

import math

import torch
from torch import Tensor

from calmix.auditing.summary import GapSums
from calmix.metrics import Interval


def normal_quantile(level: float) -> float:
    """The z of a two-sided normal interval.

    >>> round(normal_quantile(0.95), 4)
    1.96
    """
    return float(torch.special.ndtri(torch.tensor((1 + level) / 2, dtype=torch.float64)))


def gap_sums(confidence: Tensor, hit: Tensor, group: Tensor | None = None, num_groups: int = 1) -> GapSums:
    """Sums over the examples of each group (num_groups,); without groups, of all examples together (1,)."""
    difference = hit - confidence
    parts = (torch.ones_like(hit), difference, difference.square(), confidence)
    if group is None:
        return GapSums(*(part.sum()[None] for part in parts))
    return GapSums(*(group.bincount(part, minlength=num_groups) for part in parts))


def gap_intervals(sums: GapSums, *, level: float) -> tuple[Tensor, Tensor, Tensor]:
    """Gap, low and high, of the shape of the sums; nan where there is no example.

    The gap is a mean of hit - confidence, so its interval is the normal one. Where nearly all examples are
    right that would claim too much (20 right of 20 has no spread at all), so z²/2 right and z²/2 wrong
    examples of the mean confidence are added first (Agresti and Coull 1998), which puts the middle where
    Wilson's interval has it. With thousands of examples they do not show.
    """
    z = normal_quantile(level)
    count, gap = sums.count, sums.gap
    mean_confidence = sums.confidence / count
    size = count + z**2
    centre = (sums.difference + z**2 * (0.5 - mean_confidence)) / size
    added = z**2 * ((1 - mean_confidence).square() + mean_confidence.square()) / 2
    half = z * (((sums.square + added) / size - centre.square()) / size).sqrt()
    low, high = torch.minimum(centre - half, gap), torch.maximum(centre + half, gap)
    return gap, low.clamp(min=-1), high.clamp(max=1)


def gap_interval(sums: GapSums, *, level: float) -> Interval:
    """Of sums of one group."""
    gap, low, high = (float(end) for end in gap_intervals(sums, level=level))
    return Interval(gap, low, high, level=level)


def examples_for_half_width(sums: GapSums, half_width: float, *, level: float) -> int:
    """The number of such examples at which the interval of their gap has this half-width.

    The variance is that of the gap's interval: with the added examples, so that it is never 0.
    """
    z = normal_quantile(level)
    _, low, high = (float(end) for end in gap_intervals(sums, level=level))
    variance = ((high - low) / (2 * z)) ** 2 * (float(sums.count) + z**2)
    return math.ceil(variance * (z / half_width) ** 2)


def rate_interval(successes: float, size: float, *, level: float) -> Interval:
    """Wilson's interval of a rate.

    >>> rate_interval(0, 10, level=0.95).high > 0.2
    True
    """
    z = normal_quantile(level)
    rate = successes / size
    centre = (successes + z**2 / 2) / (size + z**2)
    half = z / (size + z**2) * math.sqrt(successes * (1 - rate) + z**2 / 4)
    return Interval(rate, max(0.0, min(centre - half, rate)), min(1.0, max(centre + half, rate)), level=level)


def mean_interval(values: Tensor, *, level: float) -> Interval:
    """Student's interval of a mean, with Hall's correction for skewness; values (N,), at least 0.

    Losses are skewed: few examples cost most. Hall (1992) maps the mean by a cubic that removes the skewness
    of its error. An infinite value has an infinite mean, and no interval.
    """
    from scipy.special import stdtrit  # loaded when first used; scipy.stats takes four times as long

    size, mean = len(values), float(values.mean())
    if not math.isfinite(mean) or size < 2:
        return Interval(mean, mean, math.inf, level=level)
    centred = values - mean
    spread = math.sqrt(float(centred.square().sum()) / (size - 1))
    if spread == 0:
        return Interval(mean, mean, mean, level=level)
    skewness = float(centred.pow(3).mean()) / spread**3
    quantile = float(stdtrit(size - 1, (1 + level) / 2))
    ends = [mean - spread * _hall(q / math.sqrt(size), skewness, size) for q in (quantile, -quantile)]
    return Interval(mean, max(0.0, ends[0]), ends[1], level=level)


def _hall(w: float, skewness: float, size: int) -> float:
    """The error t, in standard deviations of a value, with t + g t²/3 + g² t³/27 + g/(6 n) = w."""
    shifted = w - skewness / (6 * size)
    if abs(skewness) < 1e-6:
        return shifted
    return 3 / skewness * (math.copysign(abs(1 + skewness * shifted) ** (1 / 3), 1 + skewness * shifted) - 1)
