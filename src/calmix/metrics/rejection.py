"""Selective prediction: the errors that remain if the least confident predictions are rejected."""

from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.metrics.checks import Array
from calmix.metrics.sample import Sample


@dataclass(frozen=True, eq=False)
class Selective:
    """`risk[k]` is the error rate of the k + 1 most confident examples, `coverage[k]` their share; (N,) each.

    `aurc` is the mean of `risk`. `eaurc` is what it is above that of the best order, with all errors last.
    """

    coverage: Tensor
    risk: Tensor
    aurc: float
    eaurc: float


def selective(probs: Array, labels: Array, *, ignore_index: int | None = None) -> Selective:
    """Risk against coverage, examples in order of falling confidence (Geifman & El-Yaniv 2017).

    Examples of equal confidence have no order: their errors count evenly, as on average over all orders of
    them. So the order of the rows does not matter. For probs (N,) the confidence is max(p, 1 - p).

    >>> import torch
    >>> result = selective(torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6]]), torch.tensor([0, 0, 0]))
    >>> result.risk.tolist(), result.aurc
    ([0.0, 0.0, 0.3333333333333333], 0.1111111111111111)
    """
    blocks = [
        (block.columns.amax(1).double(), ~block.correct)
        for block in Sample(probs, labels, pixels=True, ignore_index=ignore_index).blocks()
    ]
    confidence, error = (torch.cat(parts) for parts in zip(*blocks, strict=True))
    n, wrong = len(error), int(error.sum())
    _, level, size = torch.unique(-confidence, return_inverse=True, return_counts=True)
    errors = torch.zeros(len(size), dtype=torch.float64).index_add_(0, level, error.double())
    first = (size.cumsum(0) - size).repeat_interleave(size)
    before = (errors.cumsum(0) - errors).repeat_interleave(size)
    rate = (errors / size).repeat_interleave(size)
    count = torch.arange(1, n + 1, dtype=torch.float64)
    risk = (before + (count - first) * rate) / count
    best = (count - (n - wrong)).clamp(min=0) / count
    aurc = float(risk.mean())
    return Selective(count / n, risk, aurc, aurc - float(best.mean()))
