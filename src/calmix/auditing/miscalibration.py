"""Tests for errors that cancel on average: binned statistics against their null."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.auditing.gaps import normal_quantile
from calmix.auditing.summary import Summary
from calmix.metrics import Interval
from calmix.metrics.binning import Cells, Statistic, every_class, mass_edges
from calmix.metrics.errors import mean_error, unit_interval
from calmix.metrics.nulls import classwise_errors, sums_of_hits
from calmix.metrics.sample import Sample
from calmix.seeds import generator

# Errors of 8 points that cancel are found most often with few bins: 70 % at n = 500 with 6, 50 % with 15.
BINS = 6
RESAMPLES = 1000  # of a test; fewer could not reach its level


@dataclass(frozen=True)
class ErrorTest:
    """Is an error more than chance? `error` is the debiased one, a root mean square, with its interval."""

    name: str
    statistic: float
    p_value: float
    error: Interval
    rejected: bool = False


def miscalibration_tests(summary: Summary, *, level: float, seed: int = 0) -> tuple[ErrorTest, ...]:
    """Of the top label, and of every class (with two classes: of P(y = 1)); `rejected` by Holm's rule.

    `level` is that of both together: 0.98 rejects one of them in 2 % of calibrated models. The statistic of
    the top label is the sum of |errors| over 6 bins of equal mass, which are those of P(y = 1) for two
    classes. More classes have two bins each, of probabilities below and above 1 / C. Each is compared with
    its null: labels drawn from the predictions, probabilities and bins fixed.
    """
    top = _single("top label", summary.confidence, summary.hit, level, seed)
    if summary.binary:
        other = _single(
            "P(y = 1)", summary.probs[:, 1].contiguous(), (summary.labels == 1).double(), level, seed
        )
    else:
        other = _every_class(summary, level, seed)
    return holm([top, other], alpha=1 - level)


def holm(tests: Sequence[ErrorTest], *, alpha: float) -> tuple[ErrorTest, ...]:
    """Reject from the smallest p-value on, each at alpha over the number of those not yet rejected."""
    rejected: set[str] = set()
    for place, test in enumerate(sorted(tests, key=lambda test: test.p_value)):
        if test.p_value > alpha / (len(tests) - place):
            break
        rejected.add(test.name)
    return tuple(
        ErrorTest(test.name, test.statistic, test.p_value, test.error, test.name in rejected)
        for test in tests
    )


def _single(name: str, p: Tensor, hit: Tensor, level: float, seed: int) -> ErrorTest:
    """hit ~ Bernoulli(p) in bins of equal mass."""
    edges = mass_edges([p], min(BINS, len(p)))[0]
    cell = torch.searchsorted(edges, p)
    size, total, hits = (cell.bincount(part, minlength=len(edges)) for part in (torch.ones_like(p), p, hit))
    drawn = sums_of_hits(cell, p, len(edges), RESAMPLES, generator(seed, "audit", name))
    errors = (torch.cat([hits[None], drawn]) - total).abs().sum(1) / len(p)
    error = debiased_error(Cells(size[None], total[None], hits[None]), level=level)
    return ErrorTest(name, float(errors[0]), _p_value(errors), error)


def _every_class(summary: Summary, level: float, seed: int) -> ErrorTest:
    sample = Sample(summary.probs, summary.labels)
    edge = 1 / summary.classes
    terms = every_class(lambda p, narrow: (p > edge).double(), 2)
    statistic = Statistic((summary.classes, 2), terms, mean_error, unit_interval)
    (errors,) = classwise_errors([statistic], sample, resamples=RESAMPLES, seed=seed)
    cells = statistic.sum(sample.blocks())
    half = summary.classes / 2  # a probability that moves from one class to another is an error of both
    return ErrorTest(
        "every class", half * float(errors[0]), _p_value(errors), debiased_error(cells, level=level)
    )


def _p_value(errors: Tensor) -> float:
    """Of the first among all: rounding of the sums must not decide a tie."""
    return (1 + int((errors[1:] >= errors[0] * (1 - 1e-12)).sum())) / len(errors)


def debiased_error(cells: Cells, *, level: float) -> Interval:
    """Root mean square of confidence - accuracy over bins, less sampling noise; cells (classes, bins).

    Half the sum over classes where there are several, so that two classes have the error of either. The
    interval is the normal one of the squared error, whose variance is that of a sum of squares of normal
    errors, and it ends at 1 where no bin has two examples.
    """
    size, total, hits = cells
    weight = size / size.sum(-1, keepdim=True) / (2 if len(size) > 1 else 1)
    gap = (hits - total) / size
    smooth = (hits + 0.5) / (size + 1)  # a bin of hits alone has a variance too
    variance = smooth * (1 - smooth) / size
    kept = size > 1
    rate = hits / size
    square = float(torch.where(kept, weight * (gap.square() - rate * (1 - rate) / (size - 1)), 0).sum())
    noise = weight.square() * (4 * gap.square() * variance + 2 * variance.square())
    half = normal_quantile(level) * float(torch.where(kept, noise, 0).sum()) ** 0.5
    low, value, high = (min(1.0, max(0.0, end)) ** 0.5 for end in (square - half, square, square + half))
    return Interval(value, low, high if bool(kept.any()) else 1.0, level=level)
