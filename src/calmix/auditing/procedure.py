"""The audit step by step: predictions in, a report out."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch import Tensor

from calmix.auditing.advice import advise, advise_camixup
from calmix.auditing.gaps import gap_intervals
from calmix.auditing.groups import PREDICTED, class_rates, gap_rows, groupings, predicted_classes
from calmix.auditing.measures import measure
from calmix.auditing.more_members import describe_more_members, forecast_more_members
from calmix.auditing.reliability import ReliabilityBins, reliability_bins
from calmix.auditing.remedies import Comparison, compare_remedies
from calmix.auditing.report import AuditReport, Member, TemperatureFit
from calmix.auditing.summary import Summary, summarise
from calmix.auditing.verdict import decide, explain, gather_evidence
from calmix.errors import InputError
from calmix.metrics import Interval
from calmix.metrics.checks import check_count
from calmix.predictions import Predictions
from calmix.progress import Finished, Progress, Reporter, ignore

STEPS = ("reading", "verdict", "metrics", "classes and groups", "remedies")
ROUGH = 200  # examples, below which intervals are rough


def audit(
    predictions: Any,
    labels: Any = None,
    *,
    values: Literal["logits", "probs"] | None = None,
    tolerance: float = 0.02,
    by: str | Sequence[str] = PREDICTED,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    inputs: Sequence[Mapping[str, str]] = (),
    reporter: Reporter = ignore,
) -> AuditReport:
    """Audit the calibration of a model or an ensemble: what is wrong, how sure that is, for whom, what helps.

    `predictions` are `Predictions` with labels, or an array with `labels` and `values`, "logits" or "probs":
    (M, N, C), (N, C), or (N,) probabilities P(y = 1). `tolerance` is the gap between accuracy and confidence
    that does not matter. `level` is that of the intervals; the verdict's false alarms are 1 - level.

    `by` adds a table: "true-class" (the rule by which CAMixup mixes, not calibration: right predictions of a
    rare class are rare even where probabilities are right), the name of a group, or several names, each and
    crossed. `inputs` name the files, {"name": ..., "sha256": ...}, for the report alone.

    What is made shorter for many examples is listed in the report's `notes`.

    >>> import torch
    >>> draw = torch.Generator().manual_seed(0)
    >>> logits = 3 * torch.rand(4000, 1, generator=draw) * torch.eye(3)[torch.arange(4000) % 3]
    >>> labels = logits.softmax(1).multinomial(1, generator=draw)[:, 0]
    >>> audit(logits, labels, values="logits", resamples=100, tolerance=0.05).verdict
    'calibrated'
    >>> audit(logits / 3, labels, values="logits", resamples=100).verdict
    'under-confident'
    """
    predictions = _as_predictions(predictions, labels, values)
    if predictions.labels is None:
        raise InputError("the predictions have no labels: an audit compares them with the truth")
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance is {tolerance}: it must be between 0 and 1, such as 0.02")
    if not 0 < level < 1:
        raise InputError(f"level is {level}: it must be between 0 and 1, such as 0.95")
    check_count("resamples", resamples, least=2)
    if predictions.logits.shape[1] < 2:
        raise InputError("an audit needs at least two examples, and the predictions have one")
    tables = groupings(predictions, by)

    def progress(step: int) -> None:
        reporter(Progress("audit", step, len(STEPS), STEPS[step]))

    progress(0)
    summary = summarise(predictions.logits, predictions.labels)
    progress(1)
    evidence = gather_evidence(summary, tolerance=tolerance, level=level, seed=seed)
    verdict = decide(evidence)
    progress(2)
    estimates, notes = measure(summary, level=level, resamples=resamples, seed=seed)
    reliability = reliability_bins(summary.confidence, summary.hit, seed=seed)
    progress(3)
    # Two tables of classes share the level: no class is named by chance in more than 1 - level of audits.
    half = 1 - (1 - level) / 2
    names = predictions.class_names
    classes = predicted_classes(summary, names, level=half)
    rates = class_rates(summary, names, level=half)
    groups = gap_rows(summary, tables, level=level) if tables else ()
    members = _members(summary, level)
    more = forecast_more_members(summary, level=level)
    camixup = advise_camixup(verdict, summary.members, summary.true_class_gaps)
    examples, num_classes = summary.examples, summary.classes
    del summary  # before the fits take memory of their own
    progress(4)
    comparison = compare_remedies(
        predictions.logits, predictions.labels, verdict=verdict, level=level, seed=seed
    )
    confidence, prediction = comparison.held_out.max(1)
    hit_after = (prediction == predictions.labels[comparison.rows]).double()
    reporter(Finished("audit", verdict))
    return AuditReport(
        examples=examples,
        num_classes=num_classes,
        metrics=estimates,
        evidence=evidence,
        verdict=verdict,
        explanation=explain(evidence, verdict),
        members=members,
        more_members=more,
        by=(PREDICTED, *(table[0] for table in tables)),
        classes=classes,
        class_rates=rates,
        groups=groups,
        remedies=comparison.remedies,
        temperature=TemperatureFit(comparison.temperature, comparison.ece_after_temperature),
        camixup=camixup,
        advice=(*advise(verdict, comparison, camixup), *filter(None, [describe_more_members(more)])),
        reliability=reliability,
        reliability_after=reliability_bins(confidence.clamp(0, 1), hit_after, seed=seed),
        tolerance=tolerance,
        level=level,
        resamples=resamples,
        seed=seed,
        notes=_small(examples) + notes + comparison.notes,
        positive_after=_positive_bins(comparison, predictions.labels, seed) if num_classes == 2 else None,
        inputs=tuple({key: str(value) for key, value in each.items()} for each in inputs),
        predictions=predictions,
    )


def _as_predictions(predictions: Any, labels: Any, values: str | None) -> Predictions:
    if isinstance(predictions, Predictions):
        if labels is not None or values is not None:
            raise InputError(
                "predictions are Predictions, which have labels and logits of their own: give them alone"
            )
        return predictions
    if values not in ("logits", "probs"):
        raise InputError(f'values is {values!r}: say whether the array holds "logits" or "probs"')
    make = Predictions if values == "logits" else Predictions.from_probs
    made: Predictions = make(predictions, labels)
    return made


def _members(summary: Summary, level: float) -> tuple[Member, ...]:
    gaps, lows, highs = (end.tolist() for end in gap_intervals(summary.member_gaps, level=level))
    return tuple(
        Member(float(accuracy), float(ece), Interval(gap, low, high, level=level))
        for accuracy, ece, gap, low, high in zip(
            summary.member_accuracy, summary.member_ece, gaps, lows, highs, strict=True
        )
    )


def _positive_bins(comparison: Comparison, labels: Tensor, seed: int) -> ReliabilityBins:
    """Of P(y = 1) after the recommended remedy."""
    probs = comparison.held_out[:, 1].clamp(0, 1)
    return reliability_bins(probs, (labels[comparison.rows] == 1).double(), seed=seed)


def _small(examples: int) -> tuple[str, ...]:
    return (f"With {examples} examples the intervals are rough.",) if examples < ROUGH else ()
