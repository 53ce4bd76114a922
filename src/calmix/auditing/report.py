"""The audit: predictions in, a record with every number, its interval and the verdict out."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from calmix import metrics
from calmix.auditing.gaps import gap_interval, top_label
from calmix.auditing.groups import GroupGap, group_gaps
from calmix.auditing.remedies import CAMixupAdvice, TemperatureAdvice, advise_camixup, advise_temperature
from calmix.auditing.verdict import Evidence, Verdict, decide, explain
from calmix.errors import InputError
from calmix.metrics import Interval
from calmix.metrics.checks import check_array
from calmix.metrics.sample import floats, integers
from calmix.predictions import Predictions, pool
from calmix.progress import Finished, Progress, Reporter, ignore
from calmix.records import to_json
from calmix.seeds import generator

METRICS = {name: metric for name, metric in metrics.SCALARS.items() if name not in ("skce", "gap")}
KERNEL_VALUES = 20_000_000  # probabilities that the kernel error looks at
MIN_EXAMPLES = 200  # below which intervals are rough
BLOCK = 1 << 22  # logits pooled at a time


@dataclass(frozen=True)
class Member:
    """One member alone."""

    accuracy: float
    ece: float
    gap: Interval


@dataclass(frozen=True, eq=False)
class AuditReport:
    """Outcome of an audit: `metrics` are of the pool, `classes` by class or, where asked for, by group."""

    examples: int
    num_classes: int
    metrics: dict[str, Interval]
    evidence: Evidence
    verdict: Verdict
    explanation: str
    members: tuple[Member, ...]
    by: str
    classes: tuple[GroupGap, ...]
    temperature: TemperatureAdvice
    camixup: CAMixupAdvice
    level: float
    resamples: int
    notes: tuple[str, ...]

    @property
    def advice(self) -> tuple[str, ...]:
        return self.temperature.text(self.metrics["ece"]), self.camixup.text

    def numbers(self) -> dict[str, Any]:
        """Nested plain values: each number, and its interval beside it as `<name>_interval`."""
        numbers: dict[str, Any] = {"verdict": self.verdict, "explanation": self.explanation}
        numbers |= {"advice": list(self.advice), "notes": list(self.notes), "examples": self.examples}
        for name, estimate in self.metrics.items():
            numbers |= _beside(name, estimate)
        numbers["pool"] = _beside("gap", self.evidence.gap) | {"ece": self.evidence.ece}
        numbers["members"] = [
            _beside("gap", member.gap) | {"ece": member.ece, "accuracy": member.accuracy}
            for member in self.members
        ]
        numbers["member_mean"] = _beside("gap", self.evidence.member_gap) | {"ece": self.evidence.member_ece}
        numbers["by"] = self.by
        numbers["classes"] = [vars(group) | _beside("gap", group.gap) for group in self.classes]
        fitted = self.temperature
        numbers["temperature"] = {"pool": fitted.pool, "member": fitted.member}
        numbers["temperature"] |= _beside("ece_after_pool", fitted.ece_after_pool)
        numbers["temperature"] |= _beside("ece_after_member", fitted.ece_after_member)
        numbers["camixup"] = vars(self.camixup)
        return numbers | {"level": self.level, "resamples": self.resamples}

    def to_json(self) -> str:
        """`numbers` as JSON."""
        return to_json(self.numbers())


def audit(
    predictions: Predictions,
    *,
    class_names: Sequence[str] | None = None,
    by: Literal["class", "group"] = "class",
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    reporter: Reporter = ignore,
) -> AuditReport:
    """Audit the calibration of an ensemble and of its members.

    Metrics have bootstrap intervals, gaps normal ones, and those of the classes (or of the predictions'
    groups) hold all at once. The error that a temperature leaves is cross-validated. What is made
    shorter for many examples (resamples, the kernel error, the fit of a temperature) is listed in `notes`.

    >>> draw = torch.Generator().manual_seed(0)
    >>> sure = 6 * torch.rand(300, 1, generator=draw) * torch.eye(3)[torch.arange(300) % 3]
    >>> labels = sure.softmax(1).multinomial(1, generator=draw)[:, 0]
    >>> audit(Predictions(sure[None], labels), resamples=100).verdict
    'calibrated'
    >>> audit(Predictions(sure[None] / 3, labels), resamples=100).verdict
    'under-confident'
    """
    check_array("logits", predictions.logits, "members", "examples", "classes")
    logits, labels = floats(predictions.logits), integers(predictions.labels)
    members, examples, classes = logits.shape
    if examples < 2:
        raise InputError("an audit needs at least two examples, and the predictions have one")
    names = _names(class_names, classes)
    group, group_names = _groups(predictions) if by == "group" else (labels, names)
    progress = _Steps(reporter, total=members + 4)

    progress("pooling")
    pooled = _pool(logits)
    intervals = functools.partial(metrics.bootstrap_each, resamples=resamples, level=level, seed=seed)
    progress("intervals")
    estimates = dict(zip(METRICS, intervals(list(METRICS.values()), pooled, labels), strict=True))
    progress("kernel error")
    rows = _kernel_rows(examples, classes, seed)
    (estimates["skce"],) = intervals([metrics.skce], pooled[rows], labels[rows])

    alone = []
    for k in range(members):
        progress(f"member {k}")
        alone.append(_Alone(pooled if members == 1 else logits[k].softmax(-1), labels))
    confidence, hit = top_label(pooled, labels)
    evidence = Evidence(
        members=members,
        accuracy=estimates["accuracy"].value,
        gap=gap_interval(confidence, hit, level=level),
        ece=estimates["ece"].value,
        dce=estimates["dce"],
        # Of each example the mean over members, whose mean is the mean gap.
        member_gap=gap_interval(
            torch.stack([one.confidence for one in alone]).mean(0),
            torch.stack([one.hit for one in alone]).mean(0),
            level=level,
        ),
        member_ece=sum(one.ece for one in alone) / members,
    )
    verdict = decide(evidence)

    def ece(probs: Tensor) -> Interval:
        return intervals([metrics.ece], probs, labels)[0]

    progress("temperature")
    temperature = advise_temperature(logits, labels, ece=ece, seed=seed)
    class_gaps = torch.stack([one.class_gap for one in alone])
    reporter(Finished("audit", verdict))
    return AuditReport(
        examples=examples,
        num_classes=classes,
        metrics=estimates,
        evidence=evidence,
        verdict=verdict,
        explanation=explain(evidence, verdict),
        members=tuple(one.member(level) for one in alone),
        by=by,
        classes=tuple(group_gaps(confidence, hit, group, group_names, level=level)),
        temperature=temperature,
        camixup=advise_camixup(verdict, metrics.class_gap(pooled, labels), class_gaps),
        level=level,
        resamples=estimates["ece"].resamples,
        notes=_notes(examples, resamples, estimates) + temperature.notes,
    )


class _Alone:
    """What is kept of a member's probabilities."""

    def __init__(self, probs: Tensor, labels: Tensor) -> None:
        self.confidence, self.hit = top_label(probs, labels)
        self.ece = metrics.ece(probs, labels)
        self.class_gap = metrics.class_gap(probs, labels)

    def member(self, level: float) -> Member:
        gap = gap_interval(self.confidence, self.hit, level=level)
        return Member(float(self.hit.mean()), self.ece, gap)


class _Steps:
    """Reports the step that begins."""

    def __init__(self, reporter: Reporter, total: int) -> None:
        self.reporter, self.total, self.begun = reporter, total, 0

    def __call__(self, text: str) -> None:
        self.reporter(Progress("audit", self.begun, self.total, text))
        self.begun += 1


def _pool(logits: Tensor) -> Tensor:
    """`pool`, a block of examples at a time: no second array of the size of the ensemble."""
    members, examples, classes = logits.shape
    pooled = torch.empty(
        examples, classes, dtype=torch.float64
    )  # in float32 a confident mistake has probability 0
    rows = max(1, BLOCK // (members * classes))
    for start in range(0, examples, rows):
        pooled[start : start + rows] = pool(logits[:, start : start + rows].double())
    return pooled


def _kernel_rows(examples: int, classes: int, seed: int) -> Tensor:
    """Examples in random order: neighbours in a file sorted by class would not be independent."""
    most = max(2, KERNEL_VALUES // classes)
    return torch.randperm(examples, generator=generator(seed, "audit", "kernel"))[:most]


def _names(class_names: Sequence[str] | None, classes: int) -> list[str]:
    if class_names is None:
        return [str(k) for k in range(classes)]
    if len(class_names) != classes:
        raise InputError(f"class_names has {len(class_names)} names for {classes} classes: give one for each")
    return list(class_names)


def _groups(predictions: Predictions) -> tuple[Tensor, list[str]]:
    if not predictions.groups:
        raise InputError(
            "the predictions name no groups: add an array 'groups' to an .npz, or a column 'group' to a table"
        )
    values, group = np.unique(next(iter(predictions.groups.values())), return_inverse=True)
    return torch.from_numpy(group), [str(value) for value in values]


def _notes(examples: int, resamples: int, estimates: dict[str, Interval]) -> tuple[str, ...]:
    notes = []
    drawn = estimates["ece"].resamples
    if examples < MIN_EXAMPLES:
        notes.append(f"With {examples} examples the intervals are rough.")
    if drawn < resamples:
        notes.append(f"With {examples:,} examples, intervals rest on {drawn} resamples, not {resamples:,}.")
    if not estimates["skce"].resamples:
        notes.append("SKCE is the linear estimator with its standard error: all pairs would take too long.")
    if math.isinf(estimates["nll"].value):
        notes.append("NLL is infinite: some label was given the probability 0.")
    return tuple(notes)


def _beside(name: str, estimate: Interval) -> dict[str, Any]:
    return {name: estimate.value, f"{name}_interval": [estimate.low, estimate.high]}
