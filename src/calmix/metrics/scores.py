"""Means over examples: accuracy, gap, negative log-likelihood, Brier score.

An example counts as often as its weight (N,) says.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from calmix.metrics.binning import Cells, Statistic, each_row
from calmix.metrics.checks import Array
from calmix.metrics.sample import BinaryBlock, Block, Sample


def accuracy(
    probs: Array, labels: Array, *, weights: Array | None = None, ignore_index: int | None = None
) -> float:
    """Fraction of examples whose first largest probability is the label's.

    For probs (N,), y = 1 is predicted where P(y = 1) > 1/2.

    >>> import torch
    >>> accuracy(torch.tensor([[0.9, 0.1], [0.5, 0.5]]), torch.tensor([0, 1]))
    0.5
    """
    return ACCURACY.of(Sample(probs, labels, weights=weights, pixels=True, ignore_index=ignore_index))


def gap(
    probs: Array, labels: Array, *, weights: Array | None = None, ignore_index: int | None = None
) -> float:
    """Accuracy minus mean confidence: positive for under-confident predictions.

    For probs (N,) the rate of y = 1 minus the mean of P(y = 1).

    >>> import torch
    >>> gap(torch.tensor([[0.75, 0.25], [0.5, 0.5]]), torch.tensor([0, 0]))
    0.375
    """
    return GAP.of(Sample(probs, labels, weights=weights, pixels=True, ignore_index=ignore_index))


def nll(
    probs: Array, labels: Array, *, weights: Array | None = None, ignore_index: int | None = None
) -> float:
    """Mean negative log-likelihood, natural logarithm; `inf` if a label has probability 0.

    >>> import torch
    >>> nll(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    inf
    """
    return NLL.of(Sample(probs, labels, weights=weights, pixels=True, ignore_index=ignore_index))


def brier(
    probs: Array, labels: Array, *, weights: Array | None = None, ignore_index: int | None = None
) -> float:
    """Brier score: sum over the classes of (p_k - [y = k])², between 0 and 2, mean over the examples.

    For probs (N,) the mean of (P(y = 1) - y)², between 0 and 1.

    >>> import torch
    >>> brier(torch.tensor([[0.75, 0.25]]), torch.tensor([1]))
    1.125
    """
    return BRIER.of(Sample(probs, labels, weights=weights, pixels=True, ignore_index=ignore_index))


def _mean(
    value: Callable[[Block], Tensor],
    low: float,
    high: float | None = None,
    *,
    total: Callable[[Block], Tensor] | None = None,
) -> Statistic:
    """The mean of a value of each row; `total` is their sum where it can be had for less."""

    def mean(cells: Cells) -> Tensor:
        return (cells.total / cells.size)[..., 0, 0]

    def sums(block: Block) -> Tensor:
        added = total(block) if total else value(block).double().sum()
        return torch.stack([added.new_tensor(len(block.labels)), added, added.new_zeros(())])[:, None]

    return Statistic((1, 1), each_row(value), mean, lambda value: value.clamp(low, high), sums)


def _brier(block: Block) -> Tensor:
    if isinstance(block, BinaryBlock):
        return (block.confidence.double() - block.labels).square()
    # sum over k of (p_k - y_k)^2 = sum p_k^2 - 2 p_y + 1
    return block.doubles.square().sum(1) - 2 * block.label_probability.double() + 1


def _brier_total(block: Block) -> Tensor:
    if isinstance(block, BinaryBlock):
        return _brier(block).sum()
    flat = block.doubles.reshape(-1)
    return torch.dot(flat, flat) - 2 * block.label_probability.double().sum() + len(block.labels)


ACCURACY = _mean(lambda block: block.correct, low=0, high=1)
GAP = _mean(lambda block: block.hit.double() - block.confidence, low=-1, high=1)
NLL = _mean(lambda block: -block.label_probability.double().log(), low=0)
BRIER = _mean(_brier, low=0, high=2, total=_brier_total)
