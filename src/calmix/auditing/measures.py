"""The metrics of an audit: name, title, a plain explanation, and what stands beside the value."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calmix import metrics
from calmix.auditing.gaps import gap_interval, gap_sums, mean_interval, rate_interval
from calmix.auditing.summary import Summary
from calmix.metrics import Interval
from calmix.metrics.debiased import dce_statistic, squared_error
from calmix.metrics.errors import sce_statistic, tace_statistic
from calmix.metrics.kernel import median_distance
from calmix.metrics.nulls import classwise_errors
from calmix.metrics.resampling import MAX_PAIRWISE
from calmix.metrics.sample import Sample
from calmix.seeds import generator

Unit = Literal["per cent", "points", "number"]
KERNEL_VALUES = 400_000_000  # n² C, above which the kernel error is the linear estimator
KERNEL_RESAMPLES = 200
KERNEL_ROWS = 500  # of which the linear estimator's bandwidth is the median distance
LINEAR_VALUES = 200_000  # probabilities that the linear estimator reads
REFINEMENT_VALUES = 1_000_000  # log-probabilities that the refinement reads


@dataclass(frozen=True)
class Measure:
    """A metric for readers: `unit` says how its value is shown."""

    name: str
    title: str
    explanation: str
    unit: Unit


MEASURES = {
    measure.name: measure
    for measure in (
        Measure("accuracy", "Accuracy", "share of examples whose likeliest class is right", "per cent"),
        Measure("gap", "Gap", "accuracy minus mean confidence; below 0 is over-confident", "points"),
        Measure(
            "nll", "NLL", "log loss: the surprise at the true class; confident mistakes cost most", "number"
        ),
        Measure("brier", "Brier score", "squared distance to the truth, summed over the classes", "number"),
        Measure("dce", "DCE", "error of the confidence less sampling noise; 0 where none shows", "per cent"),
        Measure("ece", "ECE", "mean distance of accuracy and confidence, 15 bins of equal width", "per cent"),
        Measure("ace", "ACE", "as ECE, with 15 bins of equally many examples", "per cent"),
        Measure("sce", "SCE", "as ECE for every class's probability, mean over the classes", "per cent"),
        Measure("tace", "TACE", "as SCE, equally many examples a bin, probabilities above 1 %", "per cent"),
        Measure("skce", "SKCE", "squared error of all probabilities at once, by a kernel, no bins", "number"),
        Measure(
            "smooth_ece", "SmoothECE", "as ECE, smoothed over neighbouring confidences, no bins", "per cent"
        ),
        Measure(
            "brier_miscalibration",
            "Brier: miscalibration",
            "part of the top label's squared error that recalibration would remove",
            "number",
        ),
        Measure(
            "brier_discrimination",
            "Brier: discrimination",
            "part that confidence earns by telling right from wrong; more is better",
            "number",
        ),
        Measure(
            "brier_uncertainty",
            "Brier: uncertainty",
            "squared error of always stating the accuracy; error = this + the parts",
            "number",
        ),
        Measure(
            "nll_calibration", "NLL: calibration", "part of the NLL that one temperature removes", "number"
        ),
        Measure("nll_refinement", "NLL: refinement", "part of the NLL that one temperature leaves", "number"),
        Measure(
            "total_uncertainty", "Total uncertainty", "mean entropy of the predictions, in nats", "number"
        ),
        Measure("data_uncertainty", "Data uncertainty", "part of it that every member has", "number"),
        Measure("knowledge_uncertainty", "Knowledge uncertainty", "the rest: the members disagree", "number"),
        Measure("aurc", "AURC", "mean error rate as the least confident are rejected", "per cent"),
        Measure("eaurc", "E-AURC", "AURC above that of the best order, all errors last", "per cent"),
    )
}


@dataclass(frozen=True)
class Estimate:
    """A metric's value, and beside it either an interval, or what a calibrated model would show (the null),
    or nothing."""

    value: float
    interval: Interval | None = None
    null_mean: float | None = None
    null_95: float | None = None
    p_value: float | None = None


def measure(
    summary: Summary, *, level: float, resamples: int, seed: int
) -> tuple[dict[str, Estimate], tuple[str, ...]]:
    """Every metric of MEASURES in its order, and notes on what was made shorter.

    Metrics of the top label are computed from confidences and hits, as of a binary event.
    """
    notes: list[str] = []
    confidence, hit = summary.confidence, summary.hit.long()
    n = summary.examples
    null = functools.partial(metrics.null, resamples=resamples, seed=seed)
    estimates = {
        "accuracy": _with_interval(rate_interval(float(summary.hit.sum()), n, level=level)),
        "gap": _with_interval(gap_interval(gap_sums(confidence, summary.hit), level=level)),
        "nll": _with_interval(mean_interval(summary.nll, level=level)),
        "brier": _with_interval(mean_interval(summary.brier, level=level)),
        "dce": _with_interval(dce_interval(confidence, hit, level=level, seed=seed)),
    }
    if math.isinf(estimates["nll"].value):
        notes.append("NLL is infinite: some label was given the probability 0.")
    for name, metric in (("ece", metrics.ece), ("ace", metrics.ace)):
        result = null(metric, confidence, hit)
        estimates[name] = Estimate(
            metric(confidence, hit), None, result.mean, result.quantile_95, result.p_value
        )
    estimates |= _classwise(summary, resamples, seed)
    estimates["skce"] = _kernel(summary, resamples, seed, notes)
    estimates["smooth_ece"] = Estimate(metrics.smooth_ece(confidence, hit))
    parts = metrics.brier_parts(confidence, hit)
    estimates["brier_miscalibration"] = Estimate(parts.miscalibration)
    estimates["brier_discrimination"] = Estimate(parts.discrimination)
    estimates["brier_uncertainty"] = Estimate(parts.uncertainty)
    estimates |= _refinement(summary, seed, notes)
    knowledge = summary.total_entropy - summary.data_entropy
    estimates["total_uncertainty"] = Estimate(float(summary.total_entropy.mean()))
    estimates["data_uncertainty"] = Estimate(float(summary.data_entropy.mean()))
    estimates["knowledge_uncertainty"] = Estimate(float(knowledge.mean()))
    # Half of the confidence plus a half keeps its order, and is above one half: what is predicted is y = 1.
    risk = metrics.selective(0.5 + confidence / 2, hit)
    estimates["aurc"], estimates["eaurc"] = Estimate(risk.aurc), Estimate(risk.eaurc)
    return {name: estimates[name] for name in MEASURES}, tuple(notes)


def _with_interval(interval: Interval) -> Estimate:
    return Estimate(interval.value, interval)


def dce_interval(
    confidence: Tensor, hit: Tensor, *, level: float, seed: int, resamples: int = 1000
) -> Interval:
    """Debiased calibration error of the top label; hits of each bin are redrawn as normal errors.

    Squared errors of noisy bins are too large, in a resample twice over. The ends span two corrections: the
    quantiles shifted by that bias, and reflected at the value. Near 0 the interval is conservative.
    """
    sample = Sample(confidence, hit)
    statistic = dce_statistic(sample)
    cells = statistic.sum(sample.blocks())
    value = squared_error(cells)[0]
    size, total, hits = (part[0][cells.size[0] > 1] for part in cells)
    smooth = (hits + 0.5) / (size + 1)  # a bin of hits alone has a variance too
    draw = torch.randn(resamples, len(size), dtype=torch.float64, generator=generator(seed, "audit", "dce"))
    drawn = hits + (smooth * (1 - smooth) * size).sqrt() * draw
    noise = hits / size * (1 - hits / size) / (size - 1)
    values = (size * (((total - drawn) / size).square() - noise)).sum(1) / len(confidence)
    quantiles = values.quantile(values.new_tensor([(1 - level) / 2, (1 + level) / 2]))
    shifted, basic = quantiles - values.mean() + value, 2 * value - quantiles.flip(0)
    ends = torch.stack([torch.minimum(shifted, basic)[0], torch.maximum(shifted, basic)[1]])
    low, high = statistic.finish(ends).tolist()
    return Interval(float(statistic.finish(value)), low, high, resamples, level)


def _classwise(summary: Summary, resamples: int, seed: int) -> dict[str, Estimate]:
    sample = Sample(summary.probs, summary.labels)
    statistics = [sce_statistic(sample), tace_statistic(sample)]
    errors = classwise_errors(statistics, sample, resamples=resamples, seed=seed)
    return {name: _against_null(values) for name, values in zip(("sce", "tace"), errors, strict=True)}


def _against_null(values: Tensor) -> Estimate:
    value, null = values[0], values[1:]
    p_value = (1 + int((null >= value).sum())) / len(values)
    return Estimate(float(value), None, float(null.mean()), float(null.quantile(0.95)), p_value)


def _kernel(summary: Summary, resamples: int, seed: int, notes: list[str]) -> Estimate:
    n, classes = summary.probs.shape
    metric: Callable[..., float]
    if n <= MAX_PAIRWISE and n * n * classes <= KERNEL_VALUES:
        probs, labels = summary.probs, summary.labels
        metric = functools.partial(metrics.skce, bandwidth=median_distance(probs))
    else:
        # In random order: neighbours in a file sorted by class would not be independent.
        rows = torch.randperm(n, generator=generator(seed, "audit", "kernel"))
        rows = rows[: max(1000, LINEAR_VALUES // classes)]
        probs, labels = summary.probs[rows], summary.labels[rows]
        width = median_distance(probs[:KERNEL_ROWS])
        metric = functools.partial(metrics.skce, estimator="linear", bandwidth=width)
        part = f" of {len(rows):,} examples drawn at random" if len(rows) < n else ""
        notes.append(f"SKCE is the linear estimator{part}: all pairs would take too long.")
    drawn = min(resamples, KERNEL_RESAMPLES)
    result = metrics.null(metric, probs, labels, resamples=drawn, seed=seed)
    return Estimate(metric(probs, labels), None, result.mean, result.quantile_95, result.p_value)


def _refinement(summary: Summary, seed: int, notes: list[str]) -> dict[str, Estimate]:
    n, classes = summary.probs.shape
    most = max(1_000, REFINEMENT_VALUES // classes)
    probs, labels = summary.probs, summary.labels
    if most < n:
        rows = torch.randperm(n, generator=generator(seed, "audit", "refinement"))[:most]
        probs, labels = probs[rows], labels[rows]
        notes.append(f"Refinement is that of {most:,} examples drawn at random.")
    parts = metrics.refinement(probs, labels)
    return {
        "nll_calibration": Estimate(parts.calibration),
        "nll_refinement": Estimate(parts.refinement),
    }
