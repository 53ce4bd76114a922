"""The bins of a reliability diagram, with the uncertainty of each."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from calmix.metrics.binning import equal_width
from calmix.metrics.nulls import sums_of_hits
from calmix.seeds import generator

BINS = 15
RESAMPLES = 1000


@dataclass(frozen=True, eq=False)
class ReliabilityBins:
    """Bins of equal width of the confidence that hold examples, (B,) each.

    `low` and `high` are the 95 % interval of Clopper and Pearson of a bin's accuracy. A calibrated model's
    accuracy would lie between `null_low` and `null_high` in 95 % of cases (the consistency band).
    """

    count: Tensor
    confidence: Tensor
    accuracy: Tensor
    low: Tensor
    high: Tensor
    null_low: Tensor
    null_high: Tensor

    def rows(self) -> list[dict[str, Any]]:
        columns = {name: values.tolist() for name, values in vars(self).items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def reliability_bins(confidence: Tensor, hit: Tensor, *, seed: int = 0) -> ReliabilityBins:
    """Of confidences and hits (N,) in float64.

    >>> hit = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64).repeat(25)
    >>> bins = reliability_bins(torch.full_like(hit, 0.8), hit)
    >>> bins.count.tolist(), bins.accuracy.tolist(), bool(bins.null_low < 0.75)
    ([100], [0.75], True)
    """
    from scipy.special import betaincinv  # loaded when first used; scipy.stats takes four times as long

    cell = equal_width(BINS)(confidence[:, None], False)[:, 0].long()
    count, total, hits = (
        cell.bincount(part, minlength=BINS) for part in (torch.ones_like(hit), confidence, hit)
    )
    drawn = sums_of_hits(cell, confidence, BINS, RESAMPLES, generator(seed, "audit", "reliability"))
    ends = drawn.quantile(drawn.new_tensor([0.025, 0.975]), dim=0)
    kept = count > 0
    count, total, hits, ends = count[kept], total[kept], hits[kept], ends[:, kept]
    successes, failures = hits.numpy(), (count - hits).numpy()
    low = torch.from_numpy(betaincinv(successes, failures + 1, 0.025)).where(hits > 0, 0.0)
    high = torch.from_numpy(betaincinv(successes + 1, failures, 0.975)).where(hits < count, 1.0)
    return ReliabilityBins(
        count=count.long(),
        confidence=total / count,
        accuracy=hits / count,
        low=low,
        high=high,
        null_low=ends[0] / count,
        null_high=ends[1] / count,
    )
