"""The record of an audit: every number, what it rests on, and its forms as text, JSON and page."""

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from calmix import files
from calmix.auditing.advice import CAMixupAdvice
from calmix.auditing.groups import ClassRate, GroupGap
from calmix.auditing.measures import Estimate
from calmix.auditing.more_members import MoreMembers
from calmix.auditing.reliability import ReliabilityBins
from calmix.auditing.remedies import Remedy
from calmix.auditing.verdict import Evidence, Verdict
from calmix.metrics import Interval
from calmix.predictions import Predictions
from calmix.records import to_json
from calmix.version import __version__

SCHEMA_VERSION = 2  # of the JSON; schema.json describes it


@dataclass(frozen=True)
class Member:
    """One member alone."""

    accuracy: float
    ece: float
    gap: Interval


@dataclass(frozen=True)
class TemperatureFit:
    """Temperature of the pool, and the ECE that it leaves on examples that its fit has not seen."""

    pool: float
    ece_after_pool: float


@dataclass(frozen=True, eq=False)
class AuditReport:
    """Outcome of an audit. `metrics` are of the pool; `classes` are predicted classes, `class_rates` P(k) of
    every class, `groups` what `by` asked for beyond that. `inputs` are names and SHA-256 of files.
    `positive_after` are, of two classes, the bins of P(y = 1) after the recommended remedy.

    `str` is a page for a terminal of 80 columns, `to_json` the numbers, `to_html` a page with diagrams.
    """

    examples: int
    num_classes: int
    metrics: dict[str, Estimate]
    evidence: Evidence
    verdict: Verdict
    explanation: str
    members: tuple[Member, ...]
    more_members: tuple[MoreMembers, ...]
    by: tuple[str, ...]
    classes: tuple[GroupGap, ...]
    class_rates: tuple[ClassRate, ...]
    groups: tuple[GroupGap, ...]
    remedies: tuple[Remedy, ...]
    temperature: TemperatureFit
    camixup: CAMixupAdvice
    advice: tuple[str, ...]
    reliability: ReliabilityBins
    reliability_after: ReliabilityBins
    tolerance: float
    level: float
    resamples: int
    seed: int
    notes: tuple[str, ...]
    inputs: tuple[dict[str, str], ...] = ()
    positive_after: ReliabilityBins | None = None
    predictions: Predictions | None = field(default=None, repr=False)

    def numbers(self) -> dict[str, Any]:
        """Nested plain values, the dictionary behind the JSON; `schema.json` describes it."""
        evidence = self.evidence
        numbers: dict[str, Any] = {
            "version": SCHEMA_VERSION,
            "calmix": __version__,
            "verdict": self.verdict,
            "explanation": self.explanation,
            "advice": list(self.advice),
            "notes": list(self.notes),
            "inputs": [dict(each) for each in self.inputs],
            "examples": self.examples,
            "num_classes": self.num_classes,
            "tolerance": self.tolerance,
            "level": self.level,
            "resamples": self.resamples,
            "seed": self.seed,
            "examples_needed": evidence.examples_needed,
        }
        for name in ("accuracy", "ece", "gap", "nll", "brier"):
            numbers[name] = self.metrics[name].value
        numbers["pool"] = _beside("gap", evidence.gap) | {
            "gap_level": evidence.gap.level,
            "ece": evidence.ece,
        }
        if evidence.positive is not None:
            numbers["pool"] |= _beside("positive_gap", evidence.positive)
        numbers["tests"] = [
            {
                "name": test.name,
                "p_value": test.p_value,
                "rejected": test.rejected,
                **_beside("error", test.error),
            }
            for test in evidence.tests
        ]
        numbers["members"] = [
            _beside("gap", member.gap) | {"ece": member.ece, "accuracy": member.accuracy}
            for member in self.members
        ]
        numbers["member_mean"] = _beside("gap", evidence.member_gap) | {"ece": evidence.member_ece}
        numbers["more_members"] = [
            {"members": each.members, **_beside("gap", each.gap)} for each in self.more_members
        ]
        numbers["metrics"] = {name: _estimate(each) for name, each in self.metrics.items()}
        numbers["classes"] = [_gap_row(row) for row in self.classes]
        numbers["class_rates"] = [
            {
                "name": row.name,
                "examples": row.examples,
                "mean_probability": row.mean_probability,
                "rate": row.rate,
                **_beside("difference", row.difference),
                "direction": row.direction,
            }
            for row in self.class_rates
        ]
        numbers["by"] = list(self.by)
        numbers["groups"] = [_gap_row(row) | {"by": row.by} for row in self.groups]
        numbers["remedies"] = [_remedy(row) for row in self.remedies]
        numbers["temperature"] = dict(vars(self.temperature))
        numbers["camixup"] = dict(vars(self.camixup))
        numbers["reliability"] = self.reliability.rows()
        numbers["reliability_after"] = self.reliability_after.rows()
        return numbers

    def to_json(self) -> str:
        """`numbers` as JSON; what is not finite is null."""
        return to_json(self.numbers())

    def to_html(self, path: str | os.PathLike[str], *, source: str = "", date: str | None = None) -> None:
        """Write a page that needs no network; `source` says what was audited, `date` when (now)."""
        from calmix.report.audit_page import audit_page  # matplotlib, loaded when first used

        source = source or ", ".join(each["name"] for each in self.inputs)
        date = date or datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        with files.replacing(Path(path)) as file:
            file.write(audit_page(self, source=source, date=date).encode(errors="backslashreplace"))

    def __str__(self) -> str:
        from calmix.auditing.text import report_text  # which imports this module

        return report_text(self)


def _beside(name: str, interval: Interval) -> dict[str, Any]:
    return {name: interval.value, f"{name}_interval": [interval.low, interval.high]}


def _estimate(estimate: Estimate) -> dict[str, Any]:
    if estimate.interval is not None:
        interval = estimate.interval
        return {"value": estimate.value, "interval": [interval.low, interval.high]}
    if estimate.p_value is not None:
        null = {"null_mean": estimate.null_mean, "null_95": estimate.null_95}
        return {"value": estimate.value, **null, "p_value": estimate.p_value}
    return {"value": estimate.value}


def _gap_row(row: GroupGap) -> dict[str, Any]:
    return {
        "name": row.name,
        "examples": row.examples,
        "accuracy": row.accuracy,
        "confidence": row.confidence,
        **_beside("gap", row.gap),
        "direction": row.direction,
    }


def _remedy(row: Remedy) -> dict[str, Any]:
    return {
        "method": row.method,
        "nll": row.nll,
        "brier": row.brier,
        "ece": row.ece,
        **_beside("difference", row.difference),
        "difference_of": row.difference_of,
        "recommended": row.recommended,
    }
