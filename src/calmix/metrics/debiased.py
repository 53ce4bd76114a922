"""Debiased calibration error: the squared error of each bin minus the part that is sampling noise."""

import torch
from torch import Tensor

from calmix.metrics.binning import Cells, Statistic, bins_of_equal_mass
from calmix.metrics.checks import Array, refuse_weights
from calmix.metrics.sample import Sample


def dce(
    probs: Array,
    labels: Array,
    *,
    num_bins: int = 15,
    classwise: bool = False,
    squared: bool = False,
    weights: None = None,
    ignore_index: int | None = None,
) -> float:
    """Debiased calibration error, in the l2 norm over bins of equal mass (Kumar et al. 2019).

    The square root of sum_b n_b / n [(confidence_b - accuracy_b)² - accuracy_b (1 - accuracy_b) / (n_b - 1)],
    clipped at 0; a bin of one value adds 0. Near 0 for a calibrated model, whose `ece` is all noise.

    `classwise` clips the sum of each class against the rest at 0 and takes the root of their mean. `squared`
    returns the sum itself (with `classwise` the mean of the sums), not clipped: it may be negative.

    >>> import torch
    >>> dce(torch.tensor([[0.75, 0.25]] * 4), torch.tensor([0, 0, 0, 1]), num_bins=1, squared=True)
    -0.0625
    """
    refuse_weights("dce", weights, "a repeated row would change the correction for noise")
    sample = Sample(probs, labels, pixels=True, ignore_index=ignore_index)
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
