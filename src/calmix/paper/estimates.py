"""How sure a difference between two methods is.

Two runs that saw the same test images are compared on the same resamples of them, so that what makes both
worse makes neither look better. Several seeds add their own spread: the half-widths of the two intervals are
joined as independent errors are, by the root of the sum of their squares.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy import stats
from torch import Tensor

from calmix.corruptions import CORRUPTIONS
from calmix.evaluate import SEVERITIES
from calmix.metrics.debiased import dce_statistic
from calmix.metrics.kernel import skce_terms
from calmix.metrics.sample import Sample
from calmix.paper.methods import ENSEMBLES, title
from calmix.paper.study import NotRunError, Result, Study
from calmix.predictions import Predictions, load_predictions, pool
from calmix.seeds import generator

Array = npt.NDArray[np.float64]
RESAMPLES = 1000
LEVEL = 0.95
NUM_BINS = 15


@dataclass(frozen=True, eq=False)
class Estimate:
    """A number in per cent by seed (S,), and again for each resample of the test images (S, RESAMPLES)."""

    seeds: tuple[int, ...]
    values: Array
    drawn: Array

    def __sub__(self, other: "Estimate") -> "Estimate":
        seeds = tuple(seed for seed in self.seeds if seed in other.seeds)
        if not seeds:
            raise NotRunError(f"a common seed: {self.seeds} and {other.seeds}")
        (a, x), (b, y) = (e._of(seeds) for e in (self, other))
        return Estimate(seeds, a - b, x - y)

    def __rmul__(self, factor: float) -> "Estimate":
        return Estimate(self.seeds, factor * self.values, factor * self.drawn)

    def positive(self) -> "Estimate":
        """The number where it is above 0, and 0 elsewhere."""
        return Estimate(self.seeds, self.values.clip(0), self.drawn.clip(0))

    def _of(self, seeds: Sequence[int]) -> tuple[Array, Array]:
        rows = [self.seeds.index(seed) for seed in seeds]
        return self.values[rows], self.drawn[rows]

    @property
    def value(self) -> float:
        return float(self.values.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """Of the mean over seeds: resampled examples, moved so that their mean is the value; with several
        seeds, the t interval of these too."""
        drawn = self.drawn.mean(0)
        low, high = np.quantile(drawn - drawn.mean(), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        over_seeds = 0.0
        if (count := len(self.seeds)) > 1:
            over_seeds = stats.t.ppf((1 + LEVEL) / 2, count - 1) * self.values.std(ddof=1) / count**0.5
        return self.value - float(np.hypot(low, over_seeds)), self.value + float(np.hypot(high, over_seeds))

    @property
    def sign(self) -> int:
        """1 or -1 where the interval is sure of it, otherwise 0."""
        low, high = self.interval
        return (low > 0) - (high < 0)

    def __str__(self) -> str:
        low, high = self.interval
        seeds = f" over {len(self.seeds)} seeds" if len(self.seeds) > 1 else ""
        spread = f" [{low:+.2f}, {high:+.2f}]" if low < high else ""
        return f"{self.value:+.2f}{spread}{seeds}"


class Estimates:
    """The estimates of a study, each computed once; the methods of which it lacks the runs raise
    `NotRunError`."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self._clean = functools.cache(clean_draws)
        self._corrupted = functools.cache(corrupted_draws)
        self._kernel = functools.cache(kernel_draws)

    def accuracy(self, *method: str) -> Estimate:
        return self._estimate(method, "accuracy")

    def ece(self, *method: str) -> Estimate:
        return self._estimate(method, "ece")

    def gap(self, *method: str) -> Estimate:
        return self._estimate(method, "gap")

    def dce(self, *method: str) -> Estimate:
        return self._estimate(method, "dce")

    def skce(self, *method: str) -> Estimate:
        results = self.study[method[0], method[1]]
        return self._joined(results, [self._kernel(result) for result in results])

    def scaled_ece(self, *method: str) -> Estimate:
        """With the pool's temperature, which was fitted on validation images."""
        return self._estimate(method, "scaled_ece")

    def member_ece(self, *method: str) -> Estimate:
        return self._estimate(method, "member_ece")

    def member_gap(self, *method: str) -> Estimate:
        return self._estimate(method, "member_gap")

    def ca(self, *method: str) -> Estimate:
        return self._estimate(method, "accuracy", corrupted=True)

    def cece(self, *method: str) -> Estimate:
        return self._estimate(method, "ece", corrupted=True)

    def scaled_cece(self, *method: str) -> Estimate:
        return self._estimate(method, "scaled_ece", corrupted=True)

    def _estimate(self, method: tuple[str, ...], name: str, corrupted: bool = False) -> Estimate:
        results = self.study[method[0], method[1]]
        if corrupted and not all(result.corrupted for result in results):
            raise NotRunError(f"{ENSEMBLES[method[0]]} with {title(method[1])} under corruption")
        found = [(self._corrupted if corrupted else self._clean)(result) for result in results]
        if not all(name in drawn for drawn in found):
            raise NotRunError(f"a temperature of {ENSEMBLES[method[0]]} with {title(method[1])}")
        return self._joined(results, [drawn[name] for drawn in found])

    @staticmethod
    def _joined(results: Sequence[Result], found: Sequence[tuple[float, Array]]) -> Estimate:
        values, drawn = (np.stack([column[i] for column in found]) for i in (0, 1))
        return Estimate(tuple(result.run.recipe.seed for result in results), values, drawn)


Drawn = dict[str, tuple[float, Array]]  # quantity -> value, and value of each resample


def clean_draws(result: Result) -> Drawn:
    """Numbers of the test set, in per cent."""
    held = predictions(result, "test")
    counts = resamples(len(held.labels))
    pooled = pool(held.logits.double())
    member_ece, member_gap = (
        _mean([measure(member.softmax(-1), held.labels, counts) for member in held.logits.double()])
        for measure in (ece_draws, gap_draws)
    )
    found = {
        "accuracy": accuracy_draws(pooled, held.labels, counts),
        "ece": ece_draws(pooled, held.labels, counts),
        "gap": gap_draws(pooled, held.labels, counts),
        "dce": dce_draws(pooled, held.labels, counts),
        "member_ece": member_ece,
        "member_gap": member_gap,
    }
    if fitted := result.summary["temperature"]:
        scaled = at_temperature(pooled, fitted["temperature"])
        found["scaled_ece"] = ece_draws(scaled, held.labels, counts)
    return found


def kernel_draws(result: Result) -> tuple[float, Array]:
    """SKCE of the test set, times 100; resampled to first order, which spares it all pairs again."""
    held = predictions(result, "test")
    terms = skce_terms(pool(held.logits.double()), held.labels)
    centred = (terms - terms.mean()).float() @ resamples(len(held.labels)) / len(terms)
    return _split(terms.mean() + 2 * centred.double())


def corrupted_draws(result: Result) -> Drawn:
    """Means over types and severities, in per cent: an image is drawn with all its corrupted versions."""
    found: dict[str, list[tuple[float, Array]]] = {"accuracy": [], "ece": [], "scaled_ece": []}
    fitted = result.summary["temperature"]
    for name in CORRUPTIONS:
        for severity in SEVERITIES:
            held = predictions(result, f"{name}-{severity}")
            counts = resamples(len(held.labels))
            pooled = pool(held.logits.double())
            found["accuracy"].append(accuracy_draws(pooled, held.labels, counts))
            found["ece"].append(ece_draws(pooled, held.labels, counts))
            if fitted:
                scaled = at_temperature(pooled, fitted["temperature"])
                found["scaled_ece"].append(ece_draws(scaled, held.labels, counts))
    return {name: _mean(draws) for name, draws in found.items() if draws}


def predictions(result: Result, what: str) -> Predictions:
    path = result.run.predictions(what)
    if not path.exists():
        raise NotRunError(f"the predictions {path}")
    return load_predictions(path)


def _mean(draws: Sequence[tuple[float, Array]]) -> tuple[float, Array]:
    values, drawn = zip(*draws, strict=True)
    return float(np.mean(values)), np.mean(drawn, axis=0)


@functools.lru_cache(maxsize=4)
def resamples(size: int) -> Tensor:
    """How often each of `size` examples is drawn, (size, 1 + RESAMPLES): first the sample itself, then the
    resamples, which are the same for every method."""
    draw = generator(0, "claims", size)
    counts = torch.ones(1 + RESAMPLES, size)
    for row in counts[1:]:
        row.copy_(torch.randint(size, (size,), generator=draw).bincount(minlength=size))
    return counts.T.contiguous()


def at_temperature(probs: Tensor, temperature: float) -> Tensor:
    return (probs.log() / temperature).softmax(-1)


def accuracy_draws(probs: Tensor, labels: Tensor, counts: Tensor) -> tuple[float, Array]:
    hit = (probs.argmax(1) == labels).float()
    return _split(hit @ counts / len(labels))


def gap_draws(probs: Tensor, labels: Tensor, counts: Tensor) -> tuple[float, Array]:
    return _split(_gaps(probs, labels) @ counts / len(labels))


def ece_draws(probs: Tensor, labels: Tensor, counts: Tensor) -> tuple[float, Array]:
    """Bins of equal width: sum_b |sum of (hit - confidence) in b| / n, resampled in one product."""
    gaps = _gaps(probs, labels)
    bins = (probs.amax(1).double() * NUM_BINS).ceil().long().clamp(1, NUM_BINS) - 1
    by_bin = torch.zeros(NUM_BINS, len(labels)).scatter_(0, bins[None], gaps[None])
    return _split((by_bin @ counts).abs().sum(0) / len(labels))


def dce_draws(probs: Tensor, labels: Tensor, counts: Tensor) -> tuple[float, Array]:
    """In the sample's own bins of equal mass."""
    sample = Sample(probs, labels)
    statistic = dce_statistic(sample)
    cell, value, hit_cell, hit = statistic.terms(sample.whole())
    sums = statistic.zeros(counts.shape[1])
    sums[0].index_add_(0, cell[:, 0], counts.double())
    sums[1].index_add_(0, cell[:, 0], counts * value)
    sums[2].index_add_(0, hit_cell, counts * hit[:, None])
    return _split(statistic.finish(statistic.value(statistic.cells(sums))))


def _gaps(probs: Tensor, labels: Tensor) -> Tensor:
    return (probs.argmax(1) == labels).float() - probs.amax(1).float()


def _split(numbers: Tensor) -> tuple[float, Array]:
    """The sample's own number, and those of the resamples, in per cent."""
    percent = 100 * numbers.double().numpy()
    return float(percent[0]), percent[1:]
