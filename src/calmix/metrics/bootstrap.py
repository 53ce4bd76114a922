"""How sure a number is: intervals by resampling the examples."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.errors import InputError
from calmix.metrics.binning import Statistic
from calmix.metrics.checks import Array, check_count
from calmix.metrics.debiased import dce, dce_statistic
from calmix.metrics.errors import (
    ace,
    ace_statistic,
    ece,
    ece_statistic,
    sce,
    sce_statistic,
    tace,
    tace_statistic,
)
from calmix.metrics.kernel import Estimator, kernel_rows, median_distance, neighbours, pairs, skce
from calmix.metrics.sample import BLOCK, Block, Sample
from calmix.metrics.scores import ACCURACY, BRIER, GAP, NLL, accuracy, brier, gap, nll
from calmix.seeds import generator

TOGETHER = 128  # resamples drawn in one go ...
ROWS = 1024  # ... and examples, so that their counts stay in the cache
DRAWS = 200_000_000  # examples drawn in all, above which fewer resamples are made ...
FEWEST = 200  # ... but never fewer than these
QUADRATIC = 5_000  # examples up to which all pairs of `skce` are resampled

STATISTICS: dict[Callable[..., float], Callable[..., Statistic]] = {
    accuracy: lambda sample: ACCURACY,
    gap: lambda sample: GAP,
    nll: lambda sample: NLL,
    brier: lambda sample: BRIER,
    ece: ece_statistic,
    ace: ace_statistic,
    sce: sce_statistic,
    tace: tace_statistic,
    dce: dce_statistic,
}


@dataclass(frozen=True)
class Interval:
    """A metric with the ends of its interval; `resamples` is 0 where the standard error is analytic."""

    value: float
    low: float
    high: float
    resamples: int
    level: float


def bootstrap(
    metric: Callable[..., float],
    probs: Array,
    labels: Array,
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """An interval for a metric of this package, its options bound by `functools.partial`.

    Examples are drawn with replacement; bins stay those of the full sample. Noise makes every error between
    accuracy and confidence larger, in a resample once more than in the sample, so that plain quantiles of
    `ece` can lie wholly above it. Two corrections are known: to move the quantiles down by the bias,
    mean(resamples) - value, which keeps the value inside; and to reflect them in the value (the basic
    interval), which takes the bias off the value too, and reaches the error without noise more often. The
    interval spans both. For small errors of `ece`, `ace`, `sce` and `tace` the bias itself is underestimated
    and the interval lies too high: look at `dce` and `gap` beside them before calling a model badly
    calibrated.

    Above 200 million draws (n = 200,000 at 1,000 resamples) fewer resamples are made, at least 200; the
    record says how many. `skce` resamples all pairs of different examples up to n = 5,000, and above gives
    its linear estimator with the normal interval of its analytic standard error. Any other callable (probs,
    labels) -> float is called on resampled rows, one resample after the other. Seeded: the same call gives
    the same ends.

    >>> import torch
    >>> bootstrap(accuracy, torch.eye(2)[[0, 1, 1, 0]], torch.tensor([0, 1, 1, 1]), resamples=100)
    Interval(value=0.75, low=0.25, high=1.0, resamples=100, level=0.95)
    """
    return bootstrap_each([metric], probs, labels, resamples=resamples, level=level, seed=seed)[0]


def bootstrap_each(
    metrics: Sequence[Callable[..., float]],
    probs: Array,
    labels: Array,
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> list[Interval]:
    """What `bootstrap` gives for each of several metrics, from resamples that are drawn once for all."""
    check_count("resamples", resamples, least=2)
    if not 0 < level < 1:
        raise InputError(f"level is {level}: it must be between 0 and 1, such as 0.95")
    sample = Sample(probs, labels)
    fewer = min(resamples, max(FEWEST, DRAWS // sample.size))
    found: dict[int, Interval] = {}
    together: dict[int, Statistic] = {}
    for place, metric in enumerate(metrics):
        function, options = metric, {}
        if isinstance(metric, functools.partial) and not metric.args:
            function, options = metric.func, metric.keywords
        if function in STATISTICS:
            together[place] = STATISTICS[function](sample, **options)
        elif function is skce:
            kernel = _kernel_interval(probs, labels, resamples=resamples, level=level, seed=seed, **options)
            found[place] = kernel
        else:
            sample.check()
            value = torch.tensor(float(metric(probs, labels)), dtype=torch.float64)
            found[place] = _interval(value, _plain(metric, probs, labels, fewer, seed), level)
    statistics = list(together.values())
    portions = _portions(fewer, seed) if together else iter(())
    drawn = zip(*(_resample(statistics, sample, count, draw) for count, draw in portions), strict=True)
    for (place, statistic), parts in zip(together.items(), drawn, strict=True):
        value = statistic.value(statistic.sum(sample.blocks()))
        found[place] = _interval(value, torch.cat(parts), level, statistic.finish)
    return [found[place] for place in range(len(metrics))]


def _interval(
    value: Tensor, drawn: Tensor, level: float, finish: Callable[[Tensor], Tensor] = lambda number: number
) -> Interval:
    """From the lower to the higher ends of two corrections of the quantiles of the draws."""
    ends = value.repeat(2)
    drawn = drawn[drawn.isfinite()]
    if bool(value.isfinite()) and len(drawn):
        quantiles = drawn.quantile(drawn.new_tensor([(1 - level) / 2, (1 + level) / 2]))
        centred, basic = quantiles - drawn.mean() + value, 2 * value - quantiles.flip(0)
        ends = torch.stack([torch.minimum(centred, basic)[0], torch.maximum(centred, basic)[1]])
    low, high = finish(ends).tolist()
    return Interval(float(finish(value)), low, high, len(drawn), level)


def _portions(resamples: int, seed: int) -> Iterator[tuple[int, torch.Generator]]:
    """How many resamples are drawn together, and from what."""
    for start in range(0, resamples, TOGETHER):
        yield min(TOGETHER, resamples - start), generator(seed, "bootstrap", start)


def _weights(count: int, size: int, rows: int, draw: torch.Generator) -> Iterator[Tensor]:
    """How often each of `size` examples is in each of `count` resamples, in blocks of rows (B, count).

    A block's share of the draws is binomial given what is left, and its draws are uniform: together the
    multinomial of drawing n of n, without ever holding n x count numbers.
    """
    left = torch.full((count,), size, dtype=torch.float64)
    for start in range(0, size, rows):
        height = min(rows, size - start)
        share = torch.full_like(left, height / (size - start))
        mine = torch.binomial(left, share, generator=draw) if start + height < size else left
        left = left - mine
        resample = torch.arange(count).repeat_interleave(mine.long())
        row = torch.randint(height, resample.shape, generator=draw)
        yield (row * count + resample).bincount(minlength=height * count).view(height, count).double()


def _resample(
    statistics: Sequence[Statistic], sample: Sample, count: int, draw: torch.Generator
) -> list[Tensor]:
    """Each statistic of `count` resamples: its sums are a sparse matrix (sums, B) times weights."""
    sums = [statistic.zeros(count) for statistic in statistics]
    rows = min(ROWS, max(1, BLOCK * 8 // sample.classes))
    for block, weights in zip(sample.blocks(rows), _weights(count, sample.size, rows, draw), strict=True):
        for statistic, total in zip(statistics, sums, strict=True):
            total += torch.sparse.mm(_matrix(statistic, block), weights).view_as(total)
    return [
        statistic.value(statistic.cells(total)) for statistic, total in zip(statistics, sums, strict=True)
    ]


def _matrix(statistic: Statistic, block: Block) -> Tensor:
    """What each row of a block adds to the sums, (3 x cells, B)."""
    cell, value, hit_cell, hit = statistic.terms(block)
    row = torch.arange(len(hit))
    rows_of_cells = row[:, None].expand_as(cell).reshape(-1)
    cell, value, cells = cell.reshape(-1), value.reshape(-1), statistic.shape[0] * statistic.shape[1] + 1
    place = torch.stack(
        [
            torch.cat([cell, cell + cells, hit_cell + 2 * cells]),
            torch.cat([rows_of_cells, rows_of_cells, row]),
        ]
    )
    entries = torch.cat([torch.ones_like(value), value, hit])
    return torch.sparse_coo_tensor(place, entries, (3 * cells, len(row)), check_invariants=False)


def _plain(metric: Callable[..., float], probs: Array, labels: Array, resamples: int, seed: int) -> Tensor:
    """The metric of one resample after the other, rows copied."""
    draw = generator(seed, "bootstrap")
    found = []
    for _ in range(resamples):
        rows = torch.randint(len(probs), (len(probs),), generator=draw)
        found.append(float(metric(_take(probs, rows), _take(labels, rows))))
    return torch.tensor(found, dtype=torch.float64)


def _take(array: Array, rows: Tensor) -> Array:
    return array[rows.to(array.device)] if isinstance(array, Tensor) else array[rows.numpy()]


def _kernel_interval(
    probs: Array,
    labels: Array,
    *,
    resamples: int,
    level: float,
    seed: int,
    estimator: Estimator = "unbiased",
    bandwidth: float | None = None,
) -> Interval:
    rows = kernel_rows(probs, labels, estimator, bandwidth)
    n = len(rows.labels)
    width = bandwidth or median_distance(rows.probs)
    if estimator == "linear" or n > QUADRATIC:
        h = neighbours(rows, width)
        if len(h) < 2:
            raise InputError(f"probs hold {n} examples: the linear estimator's standard error needs 4")
        value = float(h.mean())
        normal = float(torch.special.ndtri(torch.tensor((1 + level) / 2, dtype=torch.float64)))
        half = normal * float(h.std()) / len(h) ** 0.5
        return Interval(value, value - half, value + half, 0, level)
    drawn = [next(_weights(count, n, n, draw)) for count, draw in _portions(resamples, seed)]
    itself = torch.ones(n, 1, dtype=torch.float64)  # the sample, as the first resample
    found = _resample_pairs(rows, width, torch.cat([itself, *drawn], dim=1), biased=estimator == "biased")
    return _interval(found[0], found[1:], level)


def _resample_pairs(rows: Block, bandwidth: float, weights: Tensor, biased: bool) -> Tensor:
    """The mean over pairs in each resample, weights (N, R); of different examples only, unless biased."""
    total = torch.zeros(weights.shape[1], dtype=torch.float64)
    same = torch.zeros_like(total)
    for i, j, h in pairs(rows, bandwidth):
        left, right = weights[i : i + h.shape[0]], weights[j : j + h.shape[1]]
        total += ((h @ right) * left).sum(0) * (1 if i == j else 2)
        if i == j:
            same += h.diagonal() @ left.square()
    drawn = weights.sum(0).square()
    return total / drawn if biased else (total - same) / (drawn - weights.square().sum(0))
