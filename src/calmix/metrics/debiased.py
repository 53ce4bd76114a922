"""Debiased calibration error: what remains of the squared error once the noise of each bin is subtracted."""

import torch
from torch import Tensor

from calmix.metrics.binning import Cells, Statistic, bins_of_equal_mass
from calmix.metrics.checks import Array
from calmix.metrics.sample import Sample


def dce(
    probs: Array, labels: Array, *, num_bins: int = 15, classwise: bool = False, squared: bool = False
) -> float:
    """Debiased calibration error, in the l2 norm over bins of equal mass (Kumar et al. 2019).

    The square root of sum_b n_b / n [(confidence_b - accuracy_b)² - accuracy_b (1 - accuracy_b) / (n_b - 1)],
    cut at 0; a bin of one value adds 0. Where `ece` of a calibrated model is all noise, this is near 0.

    `classwise` cuts the sum of every class against the rest at 0 and takes the root of their mean. `squared`
    gives the sum itself (with `classwise` the mean of the sums), uncut: it may be negative.

    >>> import torch
    >>> dce(torch.tensor([[0.75, 0.25]] * 4), torch.tensor([0, 0, 0, 1]), num_bins=1, squared=True)
    -0.0625
    """
    sample = Sample(probs, labels)
    return dce_statistic(sample, num_bins=num_bins, classwise=classwise, squared=squared).of(sample)


def dce_statistic(
    sample: Sample, *, num_bins: int = 15, classwise: bool = False, squared: bool = False
) -> Statistic:
    def value(cells: Cells) -> Tensor:
        sums = squared_error(cells)
        return (sums.clamp(min=0) if classwise and not squared else sums).mean(-1)

    def finish(number: Tensor) -> Tensor:
        return number if squared else number.clamp(0, 1).sqrt()

    return Statistic(*bins_of_equal_mass(sample, num_bins, classwise), value, finish)


def squared_error(cells: Cells) -> Tensor:
    """The debiased squared error of each class, (..., classes)."""
    size = cells.size
    accuracy, confidence = cells.hits / size, cells.total / size
    debiased = (confidence - accuracy) ** 2 - accuracy * (1 - accuracy) / (size - 1)
    return torch.where(size > 1, size * debiased, 0).sum(-1) / size.sum(-1)
