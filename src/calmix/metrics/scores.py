"""Means over examples: accuracy, gap, negative log-likelihood, Brier score."""

from collections.abc import Callable

from torch import Tensor

from calmix.metrics.binning import Cells, Statistic, each_row
from calmix.metrics.checks import Array
from calmix.metrics.sample import Block, Sample


def accuracy(probs: Array, labels: Array) -> float:
    """The share of examples whose first largest probability is the label's.

    >>> import torch
    >>> accuracy(torch.tensor([[0.9, 0.1], [0.5, 0.5]]), torch.tensor([0, 1]))
    0.5
    """
    return ACCURACY.of(Sample(probs, labels))


def gap(probs: Array, labels: Array) -> float:
    """Accuracy minus mean confidence: positive where the predictions are under-confident.

    >>> import torch
    >>> gap(torch.tensor([[0.75, 0.25], [0.5, 0.5]]), torch.tensor([0, 0]))
    0.375
    """
    return GAP.of(Sample(probs, labels))


def nll(probs: Array, labels: Array) -> float:
    """Mean negative log-likelihood, natural logarithm; `inf` where a label has probability 0.

    >>> import torch
    >>> nll(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    inf
    """
    return NLL.of(Sample(probs, labels))


def brier(probs: Array, labels: Array) -> float:
    """Brier score: sum over the classes of (p_k - [y = k])², between 0 and 2, mean over the examples.

    >>> import torch
    >>> brier(torch.tensor([[0.75, 0.25]]), torch.tensor([1]))
    1.125
    """
    return BRIER.of(Sample(probs, labels))


def _mean(value: Callable[[Block], Tensor], least: float, most: float | None = None) -> Statistic:
    def mean(cells: Cells) -> Tensor:
        return (cells.total / cells.size)[..., 0, 0]

    return Statistic((1, 1), each_row(value), mean, lambda number: number.clamp(least, most))


def _brier(block: Block) -> Tensor:
    # sum over k of (p_k - y_k)^2 = sum p_k^2 - 2 p_y + 1
    return block.probs.double().square().sum(1) - 2 * block.label_probability.double() + 1


ACCURACY = _mean(lambda block: block.hit, least=0, most=1)
GAP = _mean(lambda block: block.hit.double() - block.confidence, least=-1, most=1)
NLL = _mean(lambda block: -block.label_probability.double().log(), least=0)
BRIER = _mean(_brier, least=0, most=2)
