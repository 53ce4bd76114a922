"""Bootstrap intervals: metrics of resampled examples."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from calmix.errors import InputError
from calmix.metrics import errors
from calmix.metrics.binning import Statistic
from calmix.metrics.checks import Array, check_count
from calmix.metrics.debiased import dce, dce_statistic
from calmix.metrics.kernel import Estimator, consecutive_pairs, kernel_rows, median_distance, pairs, skce
from calmix.metrics.sample import BLOCK, Block, Sample
from calmix.metrics.scores import ACCURACY, BRIER, GAP, NLL, accuracy, brier, gap, nll
from calmix.seeds import generator

RESAMPLE_CHUNK = 128  # resamples that are drawn together ...
ROW_CHUNK = 1024  # ... for so many examples at a time: their counts fit the cache
MAX_DRAWS = 200_000_000  # examples drawn in total; very large samples get fewer resamples ...
MIN_RESAMPLES = 200  # ... but at least so many
MAX_PAIRWISE = 5_000  # examples; above, `skce` is the linear estimator instead of all pairs

STATISTICS: dict[Callable[..., float], Callable[..., Statistic]] = {
    accuracy: lambda sample: ACCURACY,
    gap: lambda sample: GAP,
    nll: lambda sample: NLL,
    brier: lambda sample: BRIER,
    errors.ece: errors.ece_statistic,
    errors.ace: errors.ace_statistic,
    errors.sce: errors.sce_statistic,
    errors.tace: errors.tace_statistic,
    dce: dce_statistic,
}


@dataclass(frozen=True)
class Interval:
    """A value with the ends of its interval; `resamples` is 0 for an analytic interval."""

    value: float
    low: float
    high: float
    resamples: int = 0
    level: float = 0.95


def bootstrap(
    metric: Callable[..., float],
    probs: Array,
    labels: Array,
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval of a metric of this package; bind its options with `functools.partial`.

    Examples are drawn with replacement; bins stay those of the full sample. Sampling noise increases every
    error between accuracy and confidence, in a resample twice over, so that plain quantiles of `ece` can lie
    wholly above its value. There are two corrections: shift the quantiles by the bias, mean(resamples) -
    value, which keeps the value inside; or reflect them at the value (the basic interval), which also removes
    the bias of the value, and covers the error without noise more often. The interval spans both. For small
    `ece`, `ace`, `sce` and `tace` the bias itself is underestimated and the interval lies too high: check
    `dce` and `gap` before calling a model badly calibrated.

    Above 200 million draws (n = 200,000 at 1,000 resamples) there are fewer resamples, at least 200;
    `Interval.resamples` is their number. `skce` resamples all pairs of different examples up to n = 5,000;
    above, it is the linear estimator with the normal interval of its analytic standard error. Any other
    callable (probs, labels) -> float is called on the rows of one resample after the other. The same seed
    gives the same interval.

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
    """`bootstrap` of several metrics, from the same resamples."""
    check_count("resamples", resamples, least=2)
    if not 0 < level < 1:
        raise InputError(f"level is {level}: it must be between 0 and 1, such as 0.95")
    sample = Sample(probs, labels)
    affordable = min(resamples, max(MIN_RESAMPLES, MAX_DRAWS // sample.size))
    intervals: dict[int, Interval] = {}
    statistics: dict[int, Statistic] = {}
    for i, metric in enumerate(metrics):
        function, options = unbind(metric)
        if function in STATISTICS:
            statistics[i] = STATISTICS[function](sample, **options)
        elif function is skce:
            intervals[i] = _kernel_interval(probs, labels, resamples, level, seed, **options)
        else:
            sample.check()
            value = torch.tensor(float(metric(probs, labels)), dtype=torch.float64)
            intervals[i] = _interval(value, _resample_rows(metric, probs, labels, affordable, seed), level)
    chunks = _chunks(affordable, seed) if statistics else iter(())
    resampled = [_resample(list(statistics.values()), sample, count, draw) for count, draw in chunks]
    for (i, statistic), values in zip(statistics.items(), zip(*resampled, strict=True), strict=True):
        value = statistic.value(statistic.sum(sample.blocks()))
        intervals[i] = _interval(value, torch.cat(values), level, statistic.finish)
    return [intervals[i] for i in range(len(metrics))]


UNBOUND = {
    "weights": "draws have none",
    "ignore_index": "pixels of one image are not independent draws; leave those rows out yourself",
}


def unbind(metric: Callable[..., float]) -> tuple[Callable[..., float], dict[str, Any]]:
    """A metric and the options that `functools.partial` bound to it."""
    if isinstance(metric, functools.partial) and not metric.args:
        for name, reason in UNBOUND.items():
            if metric.func in STATISTICS and name in metric.keywords:
                raise InputError(f"{name} cannot be bound to {metric.func.__name__} here: {reason}")
        return metric.func, metric.keywords
    return metric, {}


def _interval(
    value: Tensor, resampled: Tensor, level: float, finish: Callable[[Tensor], Tensor] = lambda value: value
) -> Interval:
    """From the lower of the lower ends of the two corrections to the higher of their higher ends."""
    ends = value.repeat(2)
    resampled = resampled[resampled.isfinite()]
    if bool(value.isfinite()) and len(resampled):
        quantiles = resampled.quantile(resampled.new_tensor([(1 - level) / 2, (1 + level) / 2]))
        shifted, basic = quantiles - resampled.mean() + value, 2 * value - quantiles.flip(0)
        ends = torch.stack([torch.minimum(shifted, basic)[0], torch.maximum(shifted, basic)[1]])
    low, high = finish(ends).tolist()
    return Interval(float(finish(value)), low, high, len(resampled), level)


def _chunks(resamples: int, seed: int) -> Iterator[tuple[int, torch.Generator]]:
    """The size of each chunk of resamples, and its generator."""
    for start in range(0, resamples, RESAMPLE_CHUNK):
        yield min(RESAMPLE_CHUNK, resamples - start), generator(seed, "bootstrap", start)


def _weights(count: int, size: int, rows: int, draw: torch.Generator) -> Iterator[Tensor]:
    """How often each of `size` examples is in each of `count` resamples, in blocks of rows (B, count).

    The number of draws that fall into a block is binomial given the remaining draws, and they are uniform
    within it: together the multinomial of drawing n of n, without n x count numbers in memory.
    """
    remaining = torch.full((count,), size, dtype=torch.float64)
    for start in range(0, size, rows):
        height = min(rows, size - start)
        fraction = torch.full_like(remaining, height / (size - start))
        draws = torch.binomial(remaining, fraction, generator=draw) if start + height < size else remaining
        remaining = remaining - draws
        resample = torch.arange(count).repeat_interleave(draws.long())
        row = torch.randint(height, resample.shape, generator=draw)
        yield (row * count + resample).bincount(minlength=height * count).view(height, count).double()


def _resample(
    statistics: Sequence[Statistic], sample: Sample, count: int, draw: torch.Generator
) -> list[Tensor]:
    """Each statistic of `count` resamples: the sums are a sparse matrix (sums, B) times the weights."""
    sums = [statistic.zeros(count) for statistic in statistics]
    rows = min(ROW_CHUNK, max(1, BLOCK * 8 // sample.classes))
    for block, weights in zip(sample.blocks(rows), _weights(count, sample.size, rows, draw), strict=True):
        for statistic, total in zip(statistics, sums, strict=True):
            total += torch.sparse.mm(_matrix(statistic, block), weights).view_as(total)
    return [each.value(each.cells(total)) for each, total in zip(statistics, sums, strict=True)]


def _matrix(statistic: Statistic, block: Block) -> Tensor:
    """What each row of a block adds to the sums, sparse (3 x cells, B)."""
    cell, value, hit_cell, hit = statistic.terms(block)
    row = torch.arange(len(hit))
    rows_of_cells = row[:, None].expand_as(cell).reshape(-1)
    cell, value, cells = cell.reshape(-1), value.reshape(-1), statistic.shape[0] * statistic.shape[1] + 1
    cells_of_sums = torch.cat([cell, cell + cells, hit_cell + 2 * cells])
    indices = torch.stack([cells_of_sums, torch.cat([rows_of_cells, rows_of_cells, row])])
    entries = torch.cat([torch.ones_like(value), value, hit])
    return torch.sparse_coo_tensor(indices, entries, (3 * cells, len(row)), check_invariants=False)


def _resample_rows(
    metric: Callable[..., float], probs: Array, labels: Array, resamples: int, seed: int
) -> Tensor:
    """The metric of one resample after the other, on copied rows."""
    draw = generator(seed, "bootstrap")
    values = []
    for _ in range(resamples):
        rows = torch.randint(len(probs), (len(probs),), generator=draw)
        taken = (a[rows.to(a.device)] if isinstance(a, Tensor) else a[rows.numpy()] for a in (probs, labels))
        values.append(float(metric(*taken)))
    return torch.tensor(values, dtype=torch.float64)


def _kernel_interval(
    probs: Array,
    labels: Array,
    resamples: int,
    level: float,
    seed: int,
    estimator: Estimator = "unbiased",
    bandwidth: float | None = None,
) -> Interval:
    rows = kernel_rows(probs, labels, estimator, bandwidth)
    n = len(rows.labels)
    width = bandwidth or median_distance(rows.probs)
    if estimator == "linear" or n > MAX_PAIRWISE:
        h = consecutive_pairs(rows, width)
        if len(h) < 2:
            raise InputError(f"probs has {n} examples: the linear estimator's standard error needs 4")
        value = float(h.mean())
        normal = float(torch.special.ndtri(torch.tensor((1 + level) / 2, dtype=torch.float64)))
        half = normal * float(h.std()) / len(h) ** 0.5
        return Interval(value, value - half, value + half, level=level)
    resampled = [next(_weights(count, n, n, draw)) for count, draw in _chunks(resamples, seed)]
    sample = torch.ones(n, 1, dtype=torch.float64)  # the sample itself comes first
    weights = torch.cat([sample, *resampled], dim=1)
    values = _resample_pairs(rows, width, weights, biased=estimator == "biased")
    return _interval(values[0], values[1:], level)


def _resample_pairs(rows: Block, bandwidth: float, weights: Tensor, biased: bool) -> Tensor:
    """The mean over pairs in each resample, weights (N, R); of different examples only, unless biased."""
    total = torch.zeros(weights.shape[1], dtype=torch.float64)
    same = torch.zeros_like(total)
    for i, j, h in pairs(rows, bandwidth):
        left, right = weights[i : i + h.shape[0]], weights[j : j + h.shape[1]]
        total += ((h @ right) * left).sum(0) * (1 if i == j else 2)
        if i == j:
            same += h.diagonal() @ left.square()
    all_pairs = weights.sum(0).square()
    return total / all_pairs if biased else (total - same) / (all_pairs - weights.square().sum(0))


def resampled_values(
    metrics: Sequence[Callable[..., float]], probs: Array, labels: Array, *, resamples: int, seed: int
) -> list[tuple[float, Tensor]]:
    """Metrics that are sums over cells: each value, and its values (R,) in the resamples of `bootstrap`.

    Samples of the same shape have the same resamples at the same seed: differences of their values are those
    of a paired bootstrap.
    """
    sample = Sample(probs, labels)
    statistics = [STATISTICS[metric](sample) for metric in metrics]
    resampled = [_resample(statistics, sample, count, draw) for count, draw in _chunks(resamples, seed)]
    values = [
        statistic.finish(torch.cat(parts))
        for statistic, parts in zip(statistics, zip(*resampled, strict=True), strict=True)
    ]
    return [(statistic.of(sample), drawn) for statistic, drawn in zip(statistics, values, strict=True)]
