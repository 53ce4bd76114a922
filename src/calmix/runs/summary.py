"""Summary of a run: its numbers as one typed, versioned record. Shares are fractions, never per cent."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from calmix.corruptions import CORRUPTIONS, SEVERITIES
from calmix.errors import InputError
from calmix.metrics import Diversity
from calmix.records import from_plain, read_json

VERSION = 2


@dataclass(frozen=True)
class MemberScores:
    """Metrics of one member alone."""

    accuracy: float
    nll: float
    brier: float
    ece: float
    gap: float


@dataclass(frozen=True)
class PoolScores:
    """Metrics of the pool. One that is added has the type `float | None = None`: older summaries lack it."""

    accuracy: float
    nll: float
    brier: float
    ece: float
    gap: float
    ace: float
    sce: float
    tace: float
    dce: float
    skce: float


@dataclass(frozen=True)
class ScaledScores:
    """Metrics of the pool at the temperature that was fitted on validation data."""

    accuracy: float
    nll: float
    ece: float
    dce: float
    gap: float


@dataclass(frozen=True)
class TestScores:
    """Metrics on one test set, clean or corrupted; intervals (95 %) on the clean one only."""

    __test__ = False  # no test class

    examples: int
    pool: PoolScores
    members: tuple[MemberScores, ...] = ()
    diversity: Diversity | None = None
    scaled: ScaledScores | None = None
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def members_mean(self, name: str) -> float:
        return statistics.fmean(getattr(member, name) for member in self.members)


@dataclass(frozen=True)
class CorruptionSource:
    """Where the images of a corruption came from: generated with a seed and frost textures, or a file."""

    kind: str
    seed: int | None = None
    frost: str | None = None
    digest: str | None = None


@dataclass(frozen=True)
class Summary:
    """Numbers of an evaluated run; `corrupted[type][severity]` holds those on corrupted test sets, and
    `sources[type]` where their images came from."""

    name: str
    classes: tuple[str, ...]
    clean: TestScores
    temperature: float | None = None
    corrupted: dict[str, dict[int, TestScores]] = field(default_factory=dict)
    sources: dict[str, CorruptionSource] = field(default_factory=dict)
    version: int = VERSION

    @classmethod
    def read(cls, path: Path) -> "Summary":
        fields = read_json(path)
        version = fields.get("version") if isinstance(fields, dict) else None
        if version != VERSION:
            raise InputError(f"{path} was written by another version of calmix: run `calmix evaluate` again")
        return from_plain(cls, fields, str(path))

    def corrupted_scores(self, types: Iterable[str] = CORRUPTIONS) -> list[TestScores] | None:
        """The scores of every type and severity, or None where one is missing."""
        sets = [self.corrupted.get(name, {}).get(severity) for name in types for severity in SEVERITIES]
        return [scores for scores in sets if scores] if all(sets) else None

    def corrupted_mean(
        self, metric: str, *, of: Literal["pool", "scaled"] = "pool", types: Iterable[str] = CORRUPTIONS
    ) -> float | None:
        """The mean of a metric over types and severities: cA and cECE over the benchmark's 15 types."""
        parts = [getattr(scores, of) for scores in self.corrupted_scores(types) or []]
        values = [None if part is None else getattr(part, metric) for part in parts]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if known and len(known) == len(values) else None

    def numbers(self) -> Mapping[str, object]:
        """The record with the means over the benchmark's corruptions, for JSON."""
        means = {"cA": self.corrupted_mean("accuracy"), "cECE": self.corrupted_mean("ece")}
        return {**vars(self), **means}
