"""The null of a metric: what it would be if the probabilities were right."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from calmix.metrics.binning import Cells, Statistic
from calmix.metrics.checks import Array, check_count, check_probs
from calmix.metrics.debiased import dce
from calmix.metrics.errors import ace, ece, mean_error, sce, tace
from calmix.metrics.kernel import PAIR_BLOCK, Estimator, kernel, kernel_rows, median_distance, skce
from calmix.metrics.resampling import MAX_DRAWS, MAX_PAIRWISE, MIN_RESAMPLES, STATISTICS, unbind
from calmix.metrics.sample import CHUNK, Block, Sample
from calmix.seeds import generator

BINNED = {ece, ace, sce, tace, dce}
WIDTH = 256  # Bernoulli variables whose sum is drawn at once
MAX_EXACT = 50_000  # examples; above, the sum of WIDTH neighbours in confidence is drawn as binomial
MAX_LABELS = 5_000_000  # labels drawn for class-wise errors, over all resamples
MAX_ONE_HOT = 16  # classes; a matrix product is then faster than comparisons
MAX_PAIRS = 1_000_000_000  # pairs of examples over all resamples of `skce`


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
    distribution of their sum (above 50,000 examples: of neighbours in confidence, from the binomial).
    Class-wise errors draw the labels of a random part of the examples, at most 5 million in all
    (`classwise_errors`); class-wise `dce` draws every label, with fewer resamples above 200 million, at least
    200. `skce` is the linear estimator above 5,000 examples, and has fewer resamples, at least 200, above a
    billion pairs (n = 1,000 at 1,000 resamples). Any other callable (probs, labels) -> float is called with
    one set of drawn labels after the other.

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
    if statistic.shape[0] > 1 and statistic.value is mean_error:
        return classwise_errors([statistic], sample, resamples=resamples, seed=seed)[0]
    sums, cell, value = statistic.zeros(), [], []
    for block in sample.blocks():
        statistic.add(sums, block)
        terms = statistic.terms(block)
        if terms.cell.shape[1] == 1:
            cell.append(terms.cell[:, 0])
            value.append(terms.value[:, 0])
    if cell:
        draw = generator(seed, "null")
        hits = sums_of_hits(torch.cat(cell), torch.cat(value), sums.shape[1], resamples, draw)
    else:
        resamples = _affordable(resamples, sample.size, MAX_DRAWS)
        hits = torch.cat([drawn for (drawn,) in _hits_by_label([statistic], sample, resamples, seed)])
    # The sample goes through the same operations as the draws, so that equal hits give equal values.
    return _values(statistic, sums, torch.cat([sums[2:], hits]))


def sums_of_hits(cell: Tensor, p: Tensor, cells: int, resamples: int, draw: torch.Generator) -> Tensor:
    """Hits per cell (R, cells), of examples with one value each: hit i ~ Bernoulli(p_i) in cell[i].

    The distribution of the hits of up to WIDTH examples of a cell is built up example by example (sums of
    positive numbers: exact to rounding); a cell's hits are the sum of independent draws from these. Of very
    many examples, WIDTH neighbours in p are nearly equal: their hits are binomial.
    """
    if len(p) > MAX_EXACT:
        return _sums_of_equals(cell, p, cells, resamples, draw)
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


def _sums_of_equals(cell: Tensor, p: Tensor, cells: int, resamples: int, draw: torch.Generator) -> Tensor:
    """Hits per cell (R, cells): within each cell, about a thousandth of all examples with neighbouring p has
    binomial hits. They overstate the variance by the variance of p among neighbours, less than 1e-5 of it."""
    width = -(-len(p) // 1024)
    order = torch.from_numpy(np.argsort(p.numpy()))
    owner, value = cell[order], p[order].clamp(0, 1)
    place = torch.arange(len(p)) // width * cells + owner
    size = place.bincount().double()
    total = place.bincount(value)
    kept = size.nonzero()[:, 0]
    size, mean = size[kept], (total[kept] / size[kept]).clamp(0, 1)
    hits = p.new_zeros(cells, resamples)
    step = max(1, CHUNK // resamples)
    for part in torch.arange(len(kept)).split(step):
        shape = (len(part), resamples)
        drawn = torch.binomial(size[part, None].expand(shape), mean[part, None].expand(shape), generator=draw)
        hits.index_add_(0, kept[part] % cells, drawn)
    return hits.T


def classwise_errors(
    statistics: Sequence[Statistic], sample: Sample, *, resamples: int, seed: int
) -> list[Tensor]:
    """Errors of every class, each (1 + R,): of the sample, then of each set of drawn labels.

    All statistics see the same labels. Above MAX_LABELS the labels of m of the n examples are drawn, a random
    part, and their errors T_m are carried over to n: the spread of an error shrinks with the root of n
    whatever the sizes of the cells, T - E T = (T_m - E T_m) sqrt(m / n). The mean does so only where cells
    are full; it is taken from the cells of all examples, as the mean absolute deviation of binomial hits, in
    the ratio that T_m has to those of the part.
    """
    rows = max(2, MAX_LABELS // resamples)
    sums = [statistic.zeros() for statistic in statistics]
    for block in sample.blocks():
        for statistic, total in zip(statistics, sums, strict=True):
            statistic.add(total, block)
    part, part_sums = sample, sums
    if rows < sample.size:
        chosen = torch.randperm(sample.size, generator=generator(seed, "null", "rows"))[:rows]
        whole_sample = sample.whole()
        part = Sample(whole_sample.probs[chosen], whole_sample.labels[chosen])
        part_sums = [statistic.zeros() for statistic in statistics]
        for block in part.blocks():
            for statistic, total in zip(statistics, part_sums, strict=True):
                statistic.add(total, block)
    # The sample goes through the same operations as the draws, so that equal hits give equal values.
    chunks = [[_values(each, some, some[2:])] for each, some in zip(statistics, part_sums, strict=True)]
    for drawn in _hits_by_label(statistics, part, resamples, seed):
        for each, some, hits, chunk in zip(statistics, part_sums, drawn, chunks, strict=True):
            chunk.append(_values(each, some, hits))
    values = []
    for statistic, whole, some, chunk in zip(statistics, sums, part_sums, chunks, strict=True):
        errors = torch.cat(chunk)
        if part is not sample:
            value = statistic.value(statistic.cells(whole))
            null_errors = errors[1:]
            mean = null_errors.mean()
            deviations = [statistic.value(_deviations(statistic.cells(each))) for each in (whole, some)]
            ratio = deviations[0] / deviations[1] if float(deviations[1]) > 0 else torch.ones(())
            spread = (part.size / sample.size) ** 0.5
            errors = torch.cat([value[None], mean * ratio + (null_errors - mean) * spread])
        values.append(errors)
    return values


def _deviations(cells: Cells) -> Cells:
    """Cells whose |hits - total| is the mean absolute deviation of binomial hits (de Moivre's formula).

    With k = floor(n p) + 1: E|X - np| = 2 k (n choose k) p^k (1 - p)^(n - k + 1).
    """
    size, total = cells.size, cells.total
    p = (total / size).clamp(0, 1)
    k = torch.minimum(total.floor() + 1, size)
    choose = (size + 1).lgamma() - (k + 1).lgamma() - (size - k + 1).lgamma()
    log = choose + k.log() + torch.special.xlogy(k, p) + torch.special.xlogy(size - k + 1, 1 - p)
    deviation = torch.where((size > 0) & (p > 0) & (p < 1), 2 * log.exp(), 0)
    return Cells(size, total, total + deviation)


def _distribution(p: Tensor) -> Tensor:
    """Probability of 0..W hits among independent hits of probabilities p (G, W), (G, W + 1)."""
    result = p.new_zeros(p.shape[1] + 1, len(p))
    result[0] = 1
    for i, q in enumerate(p.T.contiguous()):
        more = result[: i + 1] * q
        result[: i + 1] *= 1 - q
        result[1 : i + 2] += more
    return result.T.contiguous()


def _values(statistic: Statistic, sums: Tensor, hits: Tensor) -> Tensor:
    """The statistic of each set of hits (R, cells), (R,); sizes and totals are those of the sums."""
    fixed = sums[:2, :, None].expand(2, sums.shape[1], len(hits))
    return statistic.value(statistic.cells(torch.cat([fixed, hits.T[None]])))


def _hits_by_label(
    statistics: Sequence[Statistic], sample: Sample, resamples: int, seed: int
) -> Iterator[list[Tensor]]:
    """Hits per cell of drawn labels, (r, cells) for each statistic, a chunk of r resamples at a time; each
    label adds a hit to its cell."""
    cells = [statistic.zeros().shape[1] for statistic in statistics]
    for count, draw in _chunks(resamples, max(1, 2 * CHUNK // max(cells)), seed):
        hits = [torch.zeros(count * size, dtype=torch.int64) for size in cells]
        for block in sample.blocks(max(1, CHUNK // max(count, 4 * sample.classes))):
            labels = draw_labels(block, count, draw)
            for statistic, total, size in zip(statistics, hits, cells, strict=True):
                cell = statistic.terms(block).cell.gather(1, labels)
                cell += torch.arange(0, count * size, size)
                total += cell.view(-1).bincount(minlength=len(total))
        yield [total.view(count, size).double() for total, size in zip(hits, cells, strict=True)]


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
        same += _same_label(k, y[i], y[j], p.shape[1])
    total = same - 2 * smoothed.gather(1, y).sum(0) + (smoothed * p).sum()
    return total / (n * (n - 1) if estimator == "unbiased" else n * n)


def _same_label(k: Tensor, left: Tensor, right: Tensor, classes: int) -> Tensor:
    """The sum of k (A, B) over the pairs with equal labels, (R,), of labels (A, R) and (B, R)."""
    if classes == 2:  # [a = b] = (1 + s t) / 2 with signs s, t
        s, t = (2.0 * labels.double() - 1 for labels in (left, right))
        return (k.sum() + ((k @ t) * s).sum(0)) / 2
    if classes <= MAX_ONE_HOT:  # the sum over j of k_ij [b_j = c] for every class c, at c = a_i
        resamples = right.shape[1]
        at = torch.arange(0, resamples * classes, classes)
        one_hot = k.new_zeros(len(right), resamples * classes).scatter_(1, right + at, 1)
        return (k @ one_hot).gather(1, left + at).sum(0)
    columns = zip(left.int().T.contiguous(), right.int().T.contiguous(), strict=True)
    return torch.stack([(k * (a[:, None] == b)).sum() for a, b in columns])


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
