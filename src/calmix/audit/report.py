"""The audit itself: predictions in, a record with every number, its interval and the verdict out."""

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from calmix import metrics
from calmix.audit.estimate import Estimate, gap_estimate, top_label
from calmix.audit.groups import GroupGap, group_gaps
from calmix.audit.remedy import CAMixupAdvice, TemperatureAdvice, advise_camixup, advise_temperature
from calmix.audit.verdict import Evidence, Verdict, explain, judge
from calmix.errors import InputError
from calmix.metrics.checks import check_array
from calmix.metrics.sample import floats, integers
from calmix.predictions import Predictions, pool
from calmix.progress import Listener, Silence, Step
from calmix.seeds import generator

METRICS = {name: metric for name, metric in metrics.SCALARS.items() if name not in ("skce", "gap")}
KERNEL_VALUES = 20_000_000  # probabilities that the kernel error looks at
FEW = 200  # examples below which intervals are rough
BLOCK = 1 << 22  # logits pooled at a time


@dataclass(frozen=True)
class Member:
    """One member alone."""

    accuracy: float
    ece: float
    gap: Estimate


@dataclass(frozen=True, eq=False)
class AuditReport:
    """What an audit found: `metrics` are of the pool, `classes` by class or, where asked for, by group."""

    examples: int
    num_classes: int
    metrics: dict[str, Estimate]
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
        found: dict[str, Any] = {"verdict": self.verdict, "explanation": self.explanation}
        found |= {"advice": list(self.advice), "notes": list(self.notes), "examples": self.examples}
        for name, estimate in self.metrics.items():
            found |= _beside(name, estimate)
        found["pool"] = _beside("gap", self.evidence.gap) | {"ece": self.evidence.ece}
        found["members"] = [
            _beside("gap", member.gap) | {"ece": member.ece, "accuracy": member.accuracy}
            for member in self.members
        ]
        found["member_mean"] = _beside("gap", self.evidence.member_gap) | {"ece": self.evidence.member_ece}
        found["by"] = self.by
        found["classes"] = [vars(group) | _beside("gap", group.gap) for group in self.classes]
        fitted = self.temperature
        found["temperature"] = {"pool": fitted.pool, "member": fitted.member}
        found["temperature"] |= _beside("ece_after_pool", fitted.ece_after_pool)
        found["temperature"] |= _beside("ece_after_member", fitted.ece_after_member)
        found["camixup"] = vars(self.camixup)
        return found | {"level": self.level, "resamples": self.resamples}

    def to_json(self) -> str:
        """`numbers` as JSON."""
        return plain_json(self.numbers())


def audit(
    predictions: Predictions,
    *,
    class_names: Sequence[str] | None = None,
    by: Literal["class", "group"] = "class",
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    listener: Listener | None = None,
) -> AuditReport:
    """Judge the calibration of an ensemble and of its members.

    Metrics have bootstrap intervals, gaps normal ones, and those of the classes (or of the predictions'
    groups) hold all at once. The error that a temperature leaves is cross-validated. What is made
    shorter for many examples (resamples, the kernel error, the fit of a temperature) is said in `notes`.

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
    tell = _Progress(listener or Silence(), total=members + 4)

    tell("pooling")
    pooled = _pool(logits)
    intervals = functools.partial(metrics.bootstrap_each, resamples=resamples, level=level, seed=seed)
    tell("intervals")
    found = dict(zip(METRICS, intervals(list(METRICS.values()), pooled, labels), strict=True))
    tell("kernel error")
    rows = _kernel_rows(examples, classes, seed)
    (found["skce"],) = intervals([metrics.skce], pooled[rows], labels[rows])
    estimates = {name: Estimate(i.value, i.low, i.high) for name, i in found.items()}

    alone = []
    for k in range(members):
        tell(f"member {k}")
        alone.append(_Alone(pooled if members == 1 else logits[k].softmax(-1), labels))
    confidence, hit = top_label(pooled, labels)
    evidence = Evidence(
        members=members,
        accuracy=estimates["accuracy"].value,
        gap=gap_estimate(confidence, hit, level=level),
        ece=estimates["ece"].value,
        dce=estimates["dce"],
        # Of each example the mean over members, whose mean is the mean gap.
        member_gap=gap_estimate(
            torch.stack([one.confidence for one in alone]).mean(0),
            torch.stack([one.hit for one in alone]).mean(0),
            level=level,
        ),
        member_ece=sum(one.ece for one in alone) / members,
    )
    verdict = judge(evidence)

    def ece(probs: Tensor) -> Estimate:
        (found,) = intervals([metrics.ece], probs, labels)
        return Estimate(found.value, found.low, found.high)

    tell("temperature")
    temperature = advise_temperature(logits, labels, ece=ece, seed=seed)
    class_gaps = torch.stack([one.class_gap for one in alone])
    tell.done(verdict)
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
        resamples=found["ece"].resamples,
        notes=_notes(examples, resamples, found) + temperature.notes,
    )


class _Alone:
    """What is kept of a member's probabilities."""

    def __init__(self, probs: Tensor, labels: Tensor) -> None:
        self.confidence, self.hit = top_label(probs, labels)
        self.ece = metrics.ece(probs, labels)
        self.class_gap = metrics.class_gap(probs, labels)

    def member(self, level: float) -> Member:
        gap = gap_estimate(self.confidence, self.hit, level=level)
        return Member(float(self.hit.mean()), self.ece, gap)


class _Progress:
    """Tells a listener what comes next."""

    def __init__(self, listener: Listener, total: int) -> None:
        self.listener, self.total, self.begun = listener, total, 0

    def __call__(self, text: str) -> None:
        self.listener.step(Step("audit", self.begun, self.total, text))
        self.begun += 1

    def done(self, text: str) -> None:
        self.listener.step(Step("audit", self.total, self.total, text))


def _pool(logits: Tensor) -> Tensor:
    """`pool`, a block of examples at a time: no second array of the size of the ensemble."""
    members, examples, classes = logits.shape
    pooled = torch.empty(examples, classes, dtype=torch.float64)  # float32 has no room for a sure mistake
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
    if predictions.groups is None:
        raise InputError(
            "the predictions name no groups: add an array 'groups' to an .npz, or a column 'group' to a table"
        )
    values, group = np.unique(predictions.groups, return_inverse=True)
    return torch.from_numpy(group), [str(value) for value in values]


def _notes(examples: int, resamples: int, found: dict[str, metrics.Interval]) -> tuple[str, ...]:
    notes = []
    drawn = found["ece"].resamples
    if examples < FEW:
        notes.append(f"With {examples} examples the intervals are rough.")
    if drawn < resamples:
        notes.append(f"With {examples:,} examples, intervals rest on {drawn} resamples, not {resamples:,}.")
    if not found["skce"].resamples:
        notes.append("SKCE is the linear estimator with its standard error: all pairs would take too long.")
    if math.isinf(found["nll"].value):
        notes.append("NLL is infinite: some label was given the probability 0.")
    return tuple(notes)


def _beside(name: str, estimate: Estimate) -> dict[str, Any]:
    return {name: estimate.value, f"{name}_interval": [estimate.low, estimate.high]}


def plain_json(value: Any) -> str:
    """JSON that every reader takes: what is not finite is null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
