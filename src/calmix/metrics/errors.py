"""Binned calibration errors: how far the accuracy of a bin is from its confidence, on average.

With n_b of n values in bin b, all four are sums of n_b / n |accuracy_b - confidence_b|; they differ in which
probabilities are binned (the largest of a row, or every class against the rest) and in how the bins are cut.
"""

from torch import Tensor

from calmix.errors import InputError
from calmix.metrics.binning import (
    Cells,
    Statistic,
    bins_of_equal_mass,
    equal_mass,
    equal_width,
    every_class,
    mass_edges,
    top_label,
)
from calmix.metrics.checks import Array, check_count
from calmix.metrics.sample import Sample


def ece(probs: Array, labels: Array, *, num_bins: int = 15) -> float:
    """Expected calibration error: the largest probability of each row, bins of equal width.

    Bin m holds (m-1)/M < p <= m/M. Naeini et al. 2015, Guo et al. 2017.

    >>> import torch
    >>> ece(torch.tensor([[0.75, 0.25], [0.25, 0.75]]), torch.tensor([0, 0]))
    0.25
    """
    sample = Sample(probs, labels)
    return ece_statistic(sample, num_bins=num_bins).of(sample)


def ace(probs: Array, labels: Array, *, num_bins: int = 15, classwise: bool = False) -> float:
    """Adaptive calibration error: as `ece`, with bins that hold equally many values.

    `classwise` bins every class against the rest and takes the mean over the classes (Nixon et al. 2019).

    >>> import torch
    >>> ace(torch.tensor([[0.75, 0.25], [0.25, 0.75]]), torch.tensor([0, 0]), classwise=True)
    0.5
    """
    sample = Sample(probs, labels)
    return ace_statistic(sample, num_bins=num_bins, classwise=classwise).of(sample)


def sce(probs: Array, labels: Array, *, num_bins: int = 15) -> float:
    """Static calibration error: every class against the rest, bins of equal width, mean over the classes.

    Nixon et al. 2019.

    >>> import torch
    >>> sce(torch.tensor([[0.75, 0.25], [0.25, 0.75]]), torch.tensor([0, 0]))
    0.5
    """
    sample = Sample(probs, labels)
    return sce_statistic(sample, num_bins=num_bins).of(sample)


def tace(probs: Array, labels: Array, *, num_bins: int = 15, threshold: float = 0.01) -> float:
    """Thresholded adaptive calibration error: class-wise `ace` of the probabilities above `threshold`.

    A bin weighs its share of the values that its class keeps; a class that keeps none adds 0. Nixon et al.
    2019.

    >>> import torch
    >>> tace(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([0, 1]))
    0.375
    """
    sample = Sample(probs, labels)
    return tace_statistic(sample, num_bins=num_bins, threshold=threshold).of(sample)


def ece_statistic(sample: Sample, *, num_bins: int = 15) -> Statistic:
    check_count("num_bins", num_bins)
    return Statistic((1, num_bins), top_label(equal_width(num_bins)), mean_error, share)


def ace_statistic(sample: Sample, *, num_bins: int = 15, classwise: bool = False) -> Statistic:
    return Statistic(*bins_of_equal_mass(sample, num_bins, classwise), mean_error, share)


def sce_statistic(sample: Sample, *, num_bins: int = 15) -> Statistic:
    check_count("num_bins", num_bins)
    return Statistic(
        (sample.classes, num_bins), every_class(equal_width(num_bins), num_bins), mean_error, share
    )


def tace_statistic(sample: Sample, *, num_bins: int = 15, threshold: float = 0.01) -> Statistic:
    check_count("num_bins", num_bins)
    if not 0 <= threshold < 1:
        raise InputError(f"threshold is {threshold}: it must be in [0, 1), like a probability")
    edges = mass_edges(sample.columns(), num_bins, threshold)
    terms = every_class(equal_mass(edges), num_bins, threshold)
    return Statistic((sample.classes, num_bins), terms, mean_error, share)


def mean_error(cells: Cells) -> Tensor:
    """Mean over the classes of sum_b n_b / n |accuracy_b - confidence_b| = sum_b |hits_b - total_b| / n."""
    values = cells.size.sum(-1).clamp(min=1)
    return ((cells.hits - cells.total).abs().sum(-1) / values).mean(-1)


def share(number: Tensor) -> Tensor:
    """Into 0..1, where every error above lies."""
    return number.clamp(0, 1)
