"""Levels of confidence for readers who have never seen a reliability diagram: of 100 predictions made with
about 80 % confidence, so many were right."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calmix.auditing.reliability import ReliabilityBins
from calmix.auditing.verdict import Verdict

MOST = 5  # levels of one picture
MIN_EXAMPLES = 30  # of a level that a sentence is made of


@dataclass(frozen=True)
class Level:
    """Predictions of about one confidence: `expected` is their mean confidence, `actual` the share that was
    right."""

    label: str
    expected: float
    actual: float
    examples: int

    @property
    def expected_of_100(self) -> int:
        return round(100 * self.expected)

    @property
    def actual_of_100(self) -> int:
        return round(100 * self.actual)

    @property
    def kind(self) -> str:
        """Whether it is surely "over" or "under" what it expected: beyond two standard errors of chance."""
        error = self.actual - self.expected
        chance = 2 * math.sqrt(self.expected * (1 - self.expected) / self.examples)
        if abs(error) <= chance:
            return "unsure"
        return "under" if error > 0 else "over"

    @property
    def actual_text(self) -> str:
        """The number of 100, which is 0 or 100 only where it is exactly so."""
        if self.actual_of_100 == 100 and self.actual < 1:
            return "more than 99"
        return "less than 1" if self.actual_of_100 == 0 and self.actual > 0 else str(self.actual_of_100)


def merge_levels(
    bins: ReliabilityBins, *, most: int = MOST, label: str = "about {:.0f} % sure"
) -> tuple[Level, ...]:
    """Neighbouring bins joined to at most `most` levels of about equally many examples, the lowest first."""
    count = bins.count.numpy().astype(np.float64)
    middle = (count.cumsum() - count / 2) / count.sum()
    part = np.minimum((most * middle).astype(int), most - 1)
    levels = []
    for k in np.unique(part):
        of = part == k
        weight = count[of] / count[of].sum()
        expected = float(weight @ bins.confidence.numpy()[of])
        actual = float(weight @ bins.accuracy.numpy()[of])
        levels.append(Level(label.format(100 * expected), expected, actual, int(count[of].sum())))
    return tuple(levels)


def choose_level(levels: Sequence[Level], verdict: Verdict) -> Level:
    """The level for a sentence: where the verdict is of an error, the one with the largest part in it and of
    its direction; else the one with most examples."""
    enough = [level for level in levels if level.examples >= MIN_EXAMPLES] or list(levels)
    if verdict in ("calibrated", "inconclusive"):
        return max(enough, key=lambda level: level.examples)
    sign = {"over-confident": -1, "mixed": 0}.get(verdict, 1)

    def part(level: Level) -> float:
        error = level.examples * (level.actual - level.expected)
        return sign * error if sign else abs(error)

    return max(enough, key=part)


def level_sentence(level: Level, *, outcome: str = "") -> str:
    """Of `outcome`, a class whose probability is judged; of right predictions where it is empty.

    >>> level_sentence(Level("", 0.801, 0.872, 1000))
    'Of 100 predictions made with about 80 % confidence, 87 were right.'
    """
    if outcome:
        return (
            f"Of 100 cases with a probability of about {level.expected_of_100} % for {outcome}, "
            f"{level.actual_text} were {outcome}."
        )
    were = "was" if level.actual_of_100 == 1 else "were"
    return (
        f"Of 100 predictions made with about {level.expected_of_100} % confidence, {level.actual_text} "
        f"{were} right."
    )
