"""The null of a metric: what it would be if the probabilities were right."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from calmix.metrics.binning import Statistic
from calmix.metrics.checks import Array, check_count, check_probs
from calmix.metrics.debiased import dce
from calmix.metrics.errors import ace, ece, sce, tace
from calmix.metrics.kernel import PAIR_BLOCK, Estimator, kernel, kernel_rows, median_distance, skce
from calmix.metrics.resampling import MAX_DRAWS, MAX_PAIRWISE, MIN_RESAMPLES, STATISTICS, unbind
from calmix.metrics.sample import CHUNK, Block, Sample
from calmix.seeds import generator

BINNED = {ece, ace, sce, tace, dce}
WIDTH = 256  # Bernoulli variables whose sum is drawn at once
MAX_PAIRS = 2_000_000_000  # pairs of examples over all resamples of `skce`


@dataclass(frozen=True)
class Null:
    """A metric of labels drawn from the probabilities; `p_value` is None if there are no labels."""

    mean: float
    quantile_95: float
    p_value: float | None
    resamples: int


def null(
    metric: Callable[..., float],
    probs: Array,
    labels: Array | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Null:
    """What a perfectly calibrated model with these probabilities would show; bind options with `partial`.

    Labels are drawn from the predictions: hit ~ Bernoulli(confidence) for metrics of the top label (and for
    probs (N,)), label ~ Categorical(probs) for the others. Probabilities and bins stay as they are. With
    labels, p_value = (1 + #{null >= value}) / (1 + resamples): a small one says that the predictions are not
    calibrated. That of `dce` counts the sums before the last clipping at 0, which would tie half of them.

    `ece`, and `ace` and `dce` of the top label, draw the hits of 256 examples at once, from the exact
    distribution of their sum. The class-wise metrics draw every label: above 200 million there are fewer
    resamples, at least 200. `skce` is the linear estimator above 5,000 examples, and has fewer resamples,
    at least 200, above 2 billion pairs (n = 1,414 at 1,000 resamples). Any other callable (probs, labels) ->
    float is called with one set of drawn labels after the other.

    >>> import torch
    >>> probs = torch.tensor([[0.75, 0.25]] * 100)
    >>> null(ece, probs, torch.zeros(100, dtype=torch.long)).p_value < 0.01
    True
    >>> null(ece, probs, torch.tensor([0, 0, 0, 1] * 25)).p_value
    1.0
    """
    check_count("resamples", resamples)
    function, options = unbind(metric)
    given = labels
    if labels is None:
        check_probs(probs)
        labels = np.zeros(probs.shape[0], dtype=np.int64)
    sample = Sample(probs, labels)
    if function in BINNED:
        statistic = STATISTICS[function](sample, **options)
        values, finish = _binned(statistic, sample, resamples, seed), statistic.finish
    else:
        finish = torch.clone
        if function is skce:
            values = _kernel(probs, labels, resamples, seed, **options)
        else:
            values = _any(metric, probs, labels, sample, resamples, seed)
    value, drawn = values[0], values[1:]
    p_value = (1 + int((drawn >= value).sum())) / (1 + len(drawn)) if given is not None else None
    shown = finish(drawn)
    return Null(float(shown.mean()), float(shown.quantile(0.95)), p_value, len(drawn))


def _affordable(resamples: int, cost: int, budget: int) -> int:
    return min(resamples, max(MIN_RESAMPLES, budget // cost))


def _binned(statistic: Statistic, sample: Sample, resamples: int, seed: int) -> Tensor:
    """The statistic of the sample, then of each set of drawn labels, (1 + R,)."""
    sums, cell, value = statistic.zeros(), [], []
    for block in sample.blocks():
        statistic.add(sums, block)
        terms = statistic.terms(block)
        if terms.cell.shape[1] == 1:
            cell.append(terms.cell[:, 0])
            value.append(terms.value[:, 0])
    if cell:
        draw = generator(seed, "null")
        hits = _sums_of_hits(torch.cat(cell), torch.cat(value), sums.shape[1], resamples, draw)
    else:
        resamples = _affordable(resamples, sample.size, MAX_DRAWS)
        hits = _hits_by_label(statistic, sample, resamples, seed)
    # The sample goes through the same operations as the draws, so that equal hits give equal values.
    hits = torch.cat([sums[2:], hits])
    fixed = sums[:2, :, None].expand(2, sums.shape[1], len(hits))
    return statistic.value(statistic.cells(torch.cat([fixed, hits.T[None]])))


def _sums_of_hits(cell: Tensor, p: Tensor, cells: int, resamples: int, draw: torch.Generator) -> Tensor:
    """Hits per cell (R, cells), of examples with one value each: hit i ~ Bernoulli(p_i) in cell[i].

    The distribution of the hits of up to WIDTH examples of a cell is built up example by example (sums of
    positive numbers: exact to rounding); a cell's hits are the sum of independent draws from these.
    """
    counts = cell.bincount(minlength=cells)
    width = min(WIDTH, int(counts.max()))
    groups = -(-counts // width)
    order = cell.argsort(stable=True)
    shift = (groups.cumsum(0) - groups) * width - (counts.cumsum(0) - counts)
    padded = p.new_zeros(int(groups.sum()) * width)
    padded[torch.arange(len(cell)) + shift[cell[order]]] = p[order].clamp(0, 1)
    owner = torch.arange(cells).repeat_interleave(groups)
    hits = p.new_zeros(cells, resamples)
    step = max(1, CHUNK // max(resamples, 4 * width))
    for q, owners in zip(padded.view(-1, width).split(step), owner.split(step), strict=True):
        at_most = _distribution(q).cumsum(1)
        u = torch.rand(len(q), resamples, dtype=torch.float64, generator=draw)
        hits.index_add_(0, owners, torch.searchsorted(at_most, u, right=True).clamp_(max=width).double())
    return hits.T


def _distribution(p: Tensor) -> Tensor:
    """Probability of 0..W hits among independent hits of probabilities p (G, W), (G, W + 1)."""
    result = p.new_zeros(p.shape[1] + 1, len(p))
    result[0] = 1
    for i, q in enumerate(p.T.contiguous()):
        more = result[: i + 1] * q
        result[: i + 1] *= 1 - q
        result[1 : i + 2] += more
    return result.T.contiguous()


def _hits_by_label(statistic: Statistic, sample: Sample, resamples: int, seed: int) -> Tensor:
    """Hits per cell (R, cells) of drawn labels; each adds a hit to its label's cell."""
    cells = statistic.zeros().shape[1]
    parts = []
    for count, draw in _chunks(resamples, max(1, 2 * CHUNK // cells), seed):
        hits = torch.zeros(count * cells, dtype=torch.int64)
        first = torch.arange(0, count * cells, cells)
        for block in sample.blocks(max(1, CHUNK // max(count, 4 * sample.classes))):
            cell = statistic.terms(block).cell.gather(1, draw_labels(block, count, draw))
            hits += cell.add_(first).view(-1).bincount(minlength=len(hits))
        parts.append(hits.view(count, cells).double())
    return torch.cat(parts)


def draw_labels(block: Block, count: int, draw: torch.Generator) -> Tensor:
    """`count` labels of each row from its own probabilities, (B, count)."""
    u = torch.rand(len(block.probs), count, dtype=torch.float64, generator=draw)
    below = block.columns.double().cumsum(1)
    below /= below[:, -1:].clone()
    return torch.searchsorted(below[:, :-1].contiguous(), u, right=True)


def _chunks(resamples: int, size: int, seed: int) -> Iterator[tuple[int, torch.Generator]]:
    for start in range(0, resamples, size):
        yield min(size, resamples - start), generator(seed, "null", start)


def _any(
    metric: Callable[..., float], probs: Array, labels: Array, sample: Sample, resamples: int, seed: int
) -> Tensor:
    """Any metric of the labels, then of each set of drawn ones."""
    resamples = _affordable(resamples, sample.size, MAX_DRAWS)
    values = [float(metric(probs, labels))]
    for count, draw in _chunks(resamples, max(1, 8 * CHUNK // sample.size), seed):
        drawn = torch.cat(
            [draw_labels(block, count, draw) for block in sample.blocks(max(1, CHUNK // count))]
        )
        for column in drawn.T.contiguous():
            values.append(float(metric(probs, column.numpy() if isinstance(labels, np.ndarray) else column)))
    return torch.tensor(values, dtype=torch.float64)


def _kernel(
    probs: Array,
    labels: Array,
    resamples: int,
    seed: int,
    *,
    estimator: Estimator = "unbiased",
    bandwidth: float | None = None,
) -> Tensor:
    """The squared kernel error of the labels, then of each set of drawn ones, (1 + R,).

    <e_a - p, e_b - q> = [a = b] - p_b - q_a + <p, q>, of which only the first term needs pairs of labels.
    """
    rows = kernel_rows(probs, labels, estimator, bandwidth)
    n = len(rows.labels)
    width = bandwidth or median_distance(rows.probs)
    if estimator == "linear" or n > MAX_PAIRWISE:
        return _linear(rows, width, _affordable(resamples, n, MAX_DRAWS), seed)
    resamples = _affordable(resamples, n * n, MAX_PAIRS)
    y = torch.cat([rows.labels[:, None], draw_labels(rows, resamples, generator(seed, "null"))], dim=1)
    p = rows.probs.double()
    same, smoothed = p.new_zeros(y.shape[1]), torch.zeros_like(p)
    blocks = [slice(start, start + PAIR_BLOCK) for start in range(0, n, PAIR_BLOCK)]
    for i, j in itertools.combinations_with_replacement(blocks, 2):
        k = kernel(p[i], p[j], width)
        if i == j and estimator == "unbiased":
            k.fill_diagonal_(0)
        smoothed[i] += k @ p[j]
        if i != j:
            smoothed[j] += k.T @ p[i]
            k *= 2  # the pairs (j, i)
        for r, (left, right) in enumerate(zip(y[i].T.contiguous(), y[j].T.contiguous(), strict=True)):
            same[r] += (k * (left[:, None] == right)).sum()
    total = same - 2 * smoothed.gather(1, y).sum(0) + (smoothed * p).sum()
    return total / (n * (n - 1) if estimator == "unbiased" else n * n)


def _linear(rows: Block, bandwidth: float, resamples: int, seed: int) -> Tensor:
    total = torch.zeros(1 + resamples, dtype=torch.float64)
    draw = generator(seed, "null")
    size = len(rows.labels) // 2 * 2
    step = 2 * max(1, CHUNK // (2 * max(resamples, rows.probs.shape[1])))
    for start in range(0, size, step):
        part = slice(start, min(start + step, size))
        block = Block(rows.probs[part], rows.labels[part], rows.group[part])
        y = torch.cat([block.labels[:, None], draw_labels(block, resamples, draw)], dim=1)
        p, q = block.probs[::2].double(), block.probs[1::2].double()
        a, b = y[::2], y[1::2]
        h = (a == b).double() - p.gather(1, b) - q.gather(1, a) + (p * q).sum(1, keepdim=True)
        total += ((p - q).abs().sum(1) * (-0.5 / bandwidth)).exp() @ h
    return total / (size // 2)
