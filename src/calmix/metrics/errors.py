"""Binned calibration errors: mean distance between the accuracy and the confidence of a bin.

With n_b of n values in bin b, all four are sums of n_b / n |accuracy_b - confidence_b|. They differ in the
probabilities that are binned (largest of a row, or each class against the rest) and in the edges of the bins.
"""

from collections.abc import Callable

from torch import Tensor

from calmix.errors import InputError
from calmix.metrics import binning
from calmix.metrics.binning import Cells, Statistic
from calmix.metrics.checks import Array, check_count, refuse_weights
from calmix.metrics.sample import Block, Sample

MOVED = "its bins have equally many values, and repeated rows would move their edges"


def ece(
    probs: Array,
    labels: Array,
    *,
    num_bins: int = 15,
    weights: Array | None = None,
    ignore_index: int | None = None,
) -> float:
    """Expected calibration error: the largest probability of each row, bins of equal width.

    Bin m holds (m-1)/M < p <= m/M. For probs (N,) they are bins of P(y = 1) itself. An example counts as
    often as its weight (N,) says. Naeini et al. 2015, Guo et al. 2017.

    >>> import torch
    >>> ece(torch.tensor([[0.75, 0.25], [0.25, 0.75]]), torch.tensor([0, 0]))
    0.25
    """
    sample = Sample(probs, labels, weights=weights, pixels=True, ignore_index=ignore_index)
    return ece_statistic(sample, num_bins=num_bins).of(sample)


def ace(
    probs: Array,
    labels: Array,
    *,
    num_bins: int = 15,
    classwise: bool = False,
    weights: None = None,
    ignore_index: int | None = None,
) -> float:
    """Adaptive calibration error: as `ece`, with bins of equally many values.

    `classwise` bins each class against the rest and takes the mean over the classes (Nixon et al. 2019).

    >>> import torch
    >>> ace(torch.tensor([[0.75, 0.25], [0.25, 0.75]]), torch.tensor([0, 0]), classwise=True)
    0.5
    """
    refuse_weights("ace", weights, MOVED)
    sample = Sample(probs, labels, pixels=True, ignore_index=ignore_index)
    return ace_statistic(sample, num_bins=num_bins, classwise=classwise).of(sample)


def sce(
    probs: Array,
    labels: Array,
    *,
    num_bins: int = 15,
    weights: Array | None = None,
    ignore_index: int | None = None,
) -> float:
    """Static calibration error: each class against the rest, bins of equal width, mean over the classes.

    For probs (N,) the one class is y = 1. An example counts as often as its weight (N,) says. Nixon et al.
    2019.

    >>> import torch
    >>> sce(torch.tensor([[0.75, 0.25], [0.25, 0.75]]), torch.tensor([0, 0]))
    0.5
    """
    sample = Sample(probs, labels, weights=weights, pixels=True, ignore_index=ignore_index)
    return sce_statistic(sample, num_bins=num_bins, sizes=False).of(sample)


def tace(
    probs: Array,
    labels: Array,
    *,
    num_bins: int = 15,
    threshold: float = 0.01,
    weights: None = None,
    ignore_index: int | None = None,
) -> float:
    """Thresholded adaptive calibration error: class-wise `ace` of the probabilities above `threshold`.

    A bin is weighted by its share of its class's values above the threshold; a class without any adds 0.
    Nixon et al. 2019.

    >>> import torch
    >>> tace(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([0, 1]))
    0.375
    """
    refuse_weights("tace", weights, MOVED)
    sample = Sample(probs, labels, pixels=True, ignore_index=ignore_index)
    return tace_statistic(sample, num_bins=num_bins, threshold=threshold).of(sample)


def ece_statistic(sample: Sample, *, num_bins: int = 15) -> Statistic:
    check_count("num_bins", num_bins)
    bins = binning.equal_width(num_bins)
    sums = binning.top_label_sums(bins, num_bins)
    return Statistic((1, num_bins), binning.top_label(bins), mean_error, unit_interval, sums)


def ace_statistic(sample: Sample, *, num_bins: int = 15, classwise: bool = False) -> Statistic:
    return Statistic(*binning.bins_of_equal_mass(sample, num_bins, classwise), mean_error, unit_interval)


def sce_statistic(sample: Sample, *, num_bins: int = 15, sizes: bool = True) -> Statistic:
    check_count("num_bins", num_bins)
    shortcut = _few_above(sample, binning.cell_of_equal_width(num_bins), num_bins, 1 / num_bins, rest=True)
    if shortcut is None and not sizes and sample.narrow:
        shortcut = binning.every_class_sums(sample.classes, num_bins)
    terms = binning.every_class(binning.equal_width(num_bins), num_bins)
    return Statistic((sample.classes, num_bins), terms, mean_error, unit_interval, shortcut, sizes)


def tace_statistic(sample: Sample, *, num_bins: int = 15, threshold: float = 0.01) -> Statistic:
    check_count("num_bins", num_bins)
    if not 0 <= threshold < 1:
        raise InputError(f"threshold is {threshold}: it must be in [0, 1)")
    edges = binning.mass_edges(sample.columns(), num_bins, threshold)
    terms = binning.every_class(binning.equal_mass(edges), num_bins, threshold)
    shortcut = _few_above(sample, binning.cell_of_equal_mass(edges), num_bins, threshold, rest=False)
    return Statistic((sample.classes, num_bins), terms, mean_error, unit_interval, shortcut)


def _few_above(
    sample: Sample,
    cell: Callable[[Tensor, Tensor, bool], Tensor],
    num_bins: int,
    above: float,
    *,
    rest: bool,
) -> Callable[[Block], Tensor] | None:
    """The shortcut where the classes are so many that at most a quarter of the values can be above."""
    return binning.few_above(cell, num_bins, above, rest=rest) if above * sample.classes >= 4 else None


def mean_error(cells: Cells) -> Tensor:
    """Mean over the classes of sum_b n_b / n |accuracy_b - confidence_b| = sum_b |hits_b - total_b| / n."""
    values = cells.size.sum(-1).clamp(min=1)
    return ((cells.hits - cells.total).abs().sum(-1) / values).mean(-1)


def unit_interval(error: Tensor) -> Tensor:
    """Clipped to [0, 1], the range of these errors."""
    return error.clamp(0, 1)
