"""Remedies: every calibrator that applies, cross-validated, against doing nothing."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from calmix import metrics
from calmix.auditing.gaps import normal_quantile
from calmix.auditing.verdict import Verdict
from calmix.calibrate import Calibrator, Method, Order, fit_calibrator
from calmix.metrics import Interval
from calmix.predictions import pool
from calmix.seeds import generator

FOLDS = 3
FIT_VALUES = 100_000  # logits that a fit reads, over the cost of its method
LEAST_FIT = 100  # examples; a fit has at least so many where there are
HELD_OUT_VALUES = 400_000  # logits of examples that remedies are compared on
LEAST_HELD_OUT = 1_000
MAX_CURVES = 200  # classes; more isotonic curves take too long, and have too few examples each
NOTHING = "nothing"


@dataclass(frozen=True)
class Candidate:
    """A calibrator; simpler ones have fewer numbers to fit. `cost` is relative to one logit of the pool."""

    name: str
    method: Method
    order: Order = "pool"
    cost: float = 1.0


@dataclass(frozen=True)
class Remedy:
    """A calibrator on examples that its fit has not seen.

    `difference` is to doing nothing, below 0 is better; its interval holds for all remedies at once. It is of
    the NLL, or, where that is infinite, of the Brier score: `difference_of` says which.
    """

    method: str
    nll: float
    brier: float
    ece: float
    difference: Interval
    difference_of: str
    recommended: bool = False


@dataclass(frozen=True, eq=False)
class Comparison:
    """All remedies, the simplest first, after doing nothing. `temperature` is of the pool, fitted on all
    examples; `ece_after_temperature` what it leaves on examples that it has not seen. `rows` are the
    examples that were compared, `held_out` the recommended remedy's probabilities of them."""

    remedies: tuple[Remedy, ...]
    temperature: float
    ece_after_temperature: float
    rows: Tensor
    held_out: Tensor
    notes: tuple[str, ...]

    @property
    def recommended(self) -> Remedy:
        return next(remedy for remedy in self.remedies if remedy.recommended)


def candidates(members: int, classes: int) -> tuple[Candidate, ...]:
    """The calibrators that apply, from simple to flexible."""
    pooled = 1 / members
    several = (
        Candidate("temperature before pooling", "temperature", "member"),
        Candidate("temperature of each member", "temperature", "each"),
        Candidate("joint", "joint", cost=2.0),
    )
    name = "temperature after pooling" if members > 1 else "temperature"
    return (
        Candidate(name, "temperature", cost=pooled),
        *(several if members > 1 else ()),
        *((Candidate("beta", "beta", cost=pooled),) if classes == 2 else ()),
        Candidate("vector", "vector", cost=12 * pooled),
        *((Candidate("isotonic", "isotonic", cost=pooled / 4),) if classes <= MAX_CURVES else ()),
    )


def compare_remedies(
    logits: Tensor, labels: Tensor, *, verdict: Verdict, level: float = 0.95, seed: int = 0
) -> Comparison:
    """Cross-validate every candidate in random folds, and recommend one, or nothing.

    Recommended is the simplest that is surely better than nothing and within noise of the best. Where the
    verdict is "calibrated" there is nothing to repair, and nothing is recommended.

    Where examples are many, a fixed random part is compared, and each fit reads a part of what it may see.
    """
    members, examples, classes = logits.shape
    most = max(LEAST_HELD_OUT, HELD_OUT_VALUES // (members * classes))
    rows = torch.randperm(examples, generator=generator(seed, "audit", "folds"))[:most]
    logits, labels = logits[:, rows], labels[rows]
    notes = []
    if most < examples:
        notes.append(f"Remedies are compared on {most:,} examples drawn at random.")
    if classes > MAX_CURVES:
        notes.append(f"Isotonic calibration is left out: it is for at most {MAX_CURVES} classes.")
    before = pool(logits.double())
    options = candidates(members, classes)
    held_out: dict[str, Tensor] = {NOTHING: before}
    shortened = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for option in options:
            limit = max(LEAST_FIT, int(FIT_VALUES / (option.cost * members * classes)))
            shortened |= limit < len(rows) * (FOLDS - 1) // FOLDS
            held_out[option.name] = _held_out(logits, labels, option, limit)
    caught.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole = _fit(logits, labels, options[0], len(rows))
    notes += [f"Temperature of all examples: {warning.message}." for warning in caught]
    if shortened:
        notes.append("Calibrators are fitted to a part of the examples in each fold, drawn at random.")
    losses = {name: _losses(probs, labels) for name, probs in held_out.items()}
    remedies = recommend(_compare(held_out, losses, labels, level), losses, verdict, level=level)
    chosen = next(remedy.method for remedy in remedies if remedy.recommended)
    return Comparison(
        remedies=remedies,
        temperature=float(whole.numbers()["temperature"]),
        ece_after_temperature=remedies[1].ece,
        rows=rows,
        held_out=held_out[chosen],
        notes=tuple(notes),
    )


def _held_out(logits: Tensor, labels: Tensor, option: Candidate, limit: int) -> Tensor:
    """Probabilities (N, C) by calibrators that have not seen the example; rows are in random order."""
    examples = len(labels)
    fold = torch.arange(examples) % min(FOLDS, examples)
    probs = torch.empty(examples, logits.shape[2], dtype=torch.float64)
    for k in range(min(FOLDS, examples)):
        seen, unseen = (fold != k).nonzero()[:, 0][:limit], (fold == k).nonzero()[:, 0]
        fitted = fit_calibrator(logits[:, seen], labels[seen], method=option.method, order=option.order)
        probs[unseen] = fitted(logits[:, unseen].double())
    return probs


def _fit(logits: Tensor, labels: Tensor, option: Candidate, limit: int) -> Calibrator:
    return fit_calibrator(logits[:, :limit], labels[:limit], method=option.method, order=option.order)


def _losses(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """NLL and Brier score of each example."""
    at_label = probs.gather(1, labels[:, None])[:, 0]
    return -at_label.log(), probs.square().sum(1) - 2 * at_label + 1


def _compare(
    held_out: dict[str, Tensor], losses: dict[str, tuple[Tensor, Tensor]], labels: Tensor, level: float
) -> tuple[Remedy, ...]:
    each = 1 - (1 - level) / (len(held_out) - 1)
    remedies = []
    for name, probs in held_out.items():
        kind = 0 if _finite(losses, name) else 1
        difference = _difference(losses[name][kind] - losses[NOTHING][kind], each)
        confidence, prediction = probs.max(1)
        error = metrics.ece(confidence.clamp(0, 1), (prediction == labels).long())
        nll, brier = (float(loss.mean()) for loss in losses[name])
        remedies.append(Remedy(name, nll, brier, error, difference, ("nll", "brier")[kind]))
    return tuple(remedies)


def _finite(losses: dict[str, tuple[Tensor, Tensor]], *names: str) -> bool:
    return all(bool(losses[name][0].isfinite().all()) for name in (NOTHING, *names))


def _difference(values: Tensor, level: float) -> Interval:
    """Normal interval of a mean of paired differences."""
    mean = float(values.mean())
    half = (
        normal_quantile(level) * float(values.std()) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    )
    return Interval(mean, mean - half, mean + half, level=level)


def recommend(
    remedies: Sequence[Remedy],
    losses: dict[str, tuple[Tensor, Tensor]],
    verdict: Verdict,
    *,
    level: float,
) -> tuple[Remedy, ...]:
    """Mark one remedy: the simplest that is surely better than nothing and not surely worse than the best.

    They are compared by NLL; a remedy with an infinite one is left out, unless doing nothing has one too:
    then all are compared by the Brier score.
    """
    kind = 0 if _finite(losses) else 1
    comparable = [r for r in remedies[1:] if kind == 1 or r.difference_of == "nll"]
    useful = [r for r in comparable if r.difference.high < 0]
    chosen = NOTHING
    if useful and verdict != "calibrated":
        best = min(useful, key=lambda remedy: remedy.difference.value)
        each = best.difference.level
        for remedy in useful:
            behind = _difference(losses[remedy.method][kind] - losses[best.method][kind], each)
            if remedy.method == best.method or behind.low <= 0:
                chosen = remedy.method
                break
    return tuple(replace(remedy, recommended=remedy.method == chosen) for remedy in remedies)
