"""Squared kernel calibration error: no bins, all classes at once."""

from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from calmix.errors import InputError
from calmix.metrics.checks import Array, refuse_weights
from calmix.metrics.sample import Block, Sample
from calmix.seeds import generator

Estimator: TypeAlias = Literal["biased", "unbiased", "linear"]
MEDIAN_PAIRS = 1_000_000  # the median distance of more pairs is that of a random subset of this size
PAIR_BLOCK = 512  # a block of pairs is PAIR_BLOCK x PAIR_BLOCK


def skce(
    probs: Array,
    labels: Array,
    *,
    estimator: Estimator = "unbiased",
    bandwidth: float | None = None,
    weights: None = None,
) -> float:
    """Squared kernel calibration error (Widmann et al. 2019).

    The mean over pairs of examples of exp(-TV(p_i, p_j) / bandwidth) <e_yi - p_i, e_yj - p_j>, with TV half
    the L1 distance: over all n² pairs ("biased", never negative), all i < j ("unbiased"), or the pairs (1,
    2), (3, 4), ... ("linear": in linear time, and dependent on the order of the examples). No square root.

    The default bandwidth is the median of TV over i < j; above a million pairs (n > 1,414) the median of a
    million random ones, the same in every call. A median of 0 is taken as the limit: only equal rows are
    compared. For probs (N,) the classes are y = 0 and y = 1.

    >>> import torch
    >>> probs, labels = torch.tensor([[0.75, 0.25], [0.75, 0.25]]), torch.tensor([0, 1])
    >>> skce(probs, labels, bandwidth=1.0), skce(probs, labels, estimator="biased", bandwidth=1.0)
    (-0.375, 0.125)
    """
    refuse_weights("skce", weights, "pairs of a row and its own copy would count as pairs of examples")
    rows = kernel_rows(probs, labels, estimator, bandwidth)
    width = bandwidth or median_distance(rows.probs)
    if estimator == "linear":
        return float(consecutive_pairs(rows, width).mean())
    n = len(rows.labels)
    total = torch.zeros((), dtype=torch.float64)
    diagonal = torch.zeros((), dtype=torch.float64)
    for i, j, h in pairs(rows, width):
        total += h.sum() * (1 if i == j else 2)
        diagonal += h.trace() if i == j else 0
    if estimator == "biased":
        return float(total) / n**2
    return float(total - diagonal) / (n * (n - 1))


def kernel_rows(probs: Array, labels: Array, estimator: str, bandwidth: float | None) -> Block:
    """The whole sample as one block, after all arguments were checked."""
    if estimator not in get_args(Estimator):
        raise InputError(f"estimator is {estimator!r}: it must be one of {', '.join(get_args(Estimator))}")
    if bandwidth is not None and not 0 < bandwidth < float("inf"):
        raise InputError(f"bandwidth is {bandwidth}: it must be positive and finite, or None for the median")
    sample = Sample(probs, labels)
    if sample.size == 1 and estimator != "biased":
        raise InputError(f'probs has one example, the {estimator} estimator needs two: use "biased"')
    return sample.whole()


def pairs(rows: Block, bandwidth: float) -> Iterator[tuple[int, int, Tensor]]:
    """Blocks of h_ij with i <= j, each with the indices of its first row and column."""
    starts = range(0, len(rows.labels), PAIR_BLOCK)
    for i in starts:
        p, residual = _residuals(rows, slice(i, i + PAIR_BLOCK))
        for j in starts[i // PAIR_BLOCK :]:
            q, other = _residuals(rows, slice(j, j + PAIR_BLOCK))
            yield i, j, kernel(p, q, bandwidth).mul_(residual @ other.T)


def kernel(p: Tensor, q: Tensor, bandwidth: float) -> Tensor:
    """exp(-TV / bandwidth) between rows of p (A, C) and q (B, C), (A, B)."""
    return torch.cdist(p, q, p=1).mul_(-0.5 / bandwidth).exp_()


def consecutive_pairs(rows: Block, bandwidth: float) -> Tensor:
    """h of the pairs (1, 2), (3, 4), ..., (N // 2,)."""
    size = len(rows.labels) // 2 * 2
    terms = []
    for start in range(0, size, 2 * PAIR_BLOCK):
        p, residual = _residuals(rows, slice(start, min(start + 2 * PAIR_BLOCK, size)))
        distance = (p[::2] - p[1::2]).abs().sum(1) / 2
        terms.append((-distance / bandwidth).exp() * (residual[::2] * residual[1::2]).sum(1))
    return torch.cat(terms)


def median_distance(probs: Tensor) -> float:
    """Median of the total variation between rows i < j; of a random million where there are more."""
    n = len(probs)
    if n == 1:
        return 1.0  # one row is at distance 0 from itself at any bandwidth
    if n * (n - 1) // 2 <= MEDIAN_PAIRS:
        distances = torch.nn.functional.pdist(probs.double(), p=1)
    else:
        draw = generator(0, "skce", "bandwidth")
        first = torch.randint(n, (MEDIAN_PAIRS,), generator=draw)
        second = (first + torch.randint(1, n, (MEDIAN_PAIRS,), generator=draw)) % n
        step = max(1, PAIR_BLOCK * PAIR_BLOCK // probs.shape[1])
        parts = zip(torch.split(first, step), torch.split(second, step), strict=True)
        distances = torch.cat([(probs[i].double() - probs[j]).abs().sum(1) for i, j in parts])
    return max(float(np.median(distances.numpy())) / 2, 1e-300)


def _residuals(rows: Block, part: slice) -> tuple[Tensor, Tensor]:
    """p_i and e_yi - p_i of some rows, in float64."""
    p = rows.probs[part].double()
    return p, torch.zeros_like(p).scatter_(1, rows.labels[part, None], 1).sub_(p)
