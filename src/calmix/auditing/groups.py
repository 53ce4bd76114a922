"""Rows by predicted class, by class-wise probability and by group, with intervals that hold all at once."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from calmix.auditing.gaps import gap_intervals, gap_sums
from calmix.auditing.summary import GapSums, Summary
from calmix.errors import InputError
from calmix.metrics import Interval
from calmix.predictions import NumpyArray, Predictions

MIN_EXAMPLES = 30  # a row of fewer is not judged
MAX_ROWS = 10_000  # of one table; a column with more values is not a group
PREDICTED, TRUE = "predicted-class", "true-class"


@dataclass(frozen=True)
class GroupGap:
    """The examples of a predicted class, of a true class or of a group: accuracy - confidence.

    `direction` is "too few" below 30 examples, and "unclear" where the interval holds 0.
    """

    name: str
    examples: int
    accuracy: float
    confidence: float
    gap: Interval
    direction: str
    by: str = PREDICTED


@dataclass(frozen=True)
class ClassRate:
    """The mean of P(k) over all examples against the rate of class k; `difference` is the first minus the
    second. `direction` is "too high", "too low", "unclear", or "too few" below 30 examples."""

    name: str
    examples: int
    mean_probability: float
    rate: float
    difference: Interval
    direction: str


def predicted_classes(summary: Summary, names: Sequence[str], *, level: float) -> tuple[GroupGap, ...]:
    """A row for each class that is predicted, the one that is furthest from 0 for sure first."""
    return gap_rows(summary, [(PREDICTED, summary.prediction, names)], level=level)


def gap_rows(
    summary: Summary, tables: Sequence[tuple[str, Tensor, Sequence[str]]], *, level: float
) -> tuple[GroupGap, ...]:
    """Rows of one or more groupings (name, group of each example, names of the groups), worst first.

    Among many groups one is off by chance: the intervals are Bonferroni's over all rows of all groupings that
    have enough examples, so that all of them hold at once with probability `level`.
    """
    sums = [gap_sums(summary.confidence, summary.hit, group, len(names)) for _, group, names in tables]
    judged = sum(int((each.count >= MIN_EXAMPLES).sum()) for each in sums)
    each_level = 1 - (1 - level) / max(judged, 1)
    rows = []
    for (by, _, names), part in zip(tables, sums, strict=True):
        gaps, lows, highs = (end.tolist() for end in gap_intervals(part, level=each_level))
        counts = part.count.long().tolist()
        confidence = (part.confidence / part.count).tolist()
        for k, count in enumerate(counts):
            if count:
                gap = Interval(gaps[k], lows[k], highs[k], level=each_level)
                accuracy = min(1.0, max(0.0, gaps[k] + confidence[k]))
                direction = _direction(gap, count, below="over-confident", above="under-confident")
                rows.append(GroupGap(names[k], count, accuracy, confidence[k], gap, direction, by))
    return tuple(sorted(rows, key=lambda row: _order(row.gap, row.direction)))


def class_rates(summary: Summary, names: Sequence[str], *, level: float) -> tuple[ClassRate, ...]:
    """A row for each class, over all examples; with two classes one, as the other mirrors it."""
    n = summary.examples
    kept = slice(1, 2) if summary.binary else slice(None)
    total, square, at_label, count = (
        part[kept]
        for part in (
            summary.class_total,
            summary.class_square,
            summary.class_label_total,
            summary.class_count,
        )
    )
    size = torch.full_like(total, n)
    # hit = [y = k] and confidence = P(k): (hit - p)² = p² - 2 p hit + hit
    sums = GapSums(size, count - total, square - 2 * at_label + count, total)
    each_level = 1 - (1 - level) / len(total)
    gaps, lows, highs = (end.tolist() for end in gap_intervals(sums, level=each_level))
    rows = []
    for k, name in enumerate(names[kept]):
        difference = Interval(-gaps[k], -highs[k], -lows[k], level=each_level)
        direction = _direction(difference, n, below="too low", above="too high")
        mean, rate = float(total[k]) / n, float(count[k]) / n
        rows.append(ClassRate(name, int(count[k]), mean, rate, difference, direction))
    return tuple(sorted(rows, key=lambda row: _order(row.difference, row.direction)))


def _order(interval: Interval, direction: str) -> tuple[bool, float, float]:
    """Sorts rows: what is furthest from 0 for sure comes first, rows of too few examples last."""
    return direction == "too few", -max(interval.low, -interval.high, 0), -abs(interval.value)


def _direction(interval: Interval, examples: int, *, below: str, above: str) -> str:
    if examples < MIN_EXAMPLES:
        return "too few"
    if interval.high < 0:
        return below
    return above if interval.low > 0 else "unclear"


def groupings(predictions: Predictions, by: str | Sequence[str]) -> list[tuple[str, Tensor, Sequence[str]]]:
    """The tables that `by` asks for: none for predicted classes; the true class; a group; each of several
    groups, then all of them crossed."""
    if by == PREDICTED:
        return []
    if by == TRUE:
        return [(TRUE, predictions.labels, predictions.class_names)]  # type: ignore[list-item]
    names = [by] if isinstance(by, str) else list(by)
    if not names:
        raise InputError("by is empty: give predicted-class, true-class, or names of groups")
    for name in names:
        if name not in predictions.groups:
            known = ", ".join((PREDICTED, TRUE, *predictions.groups))
            raise InputError(
                f"by is {name!r}, which is no group of the predictions: it must be one of {known}"
            )
    if len(names) == 1:
        return [_grouping(names[0], predictions.groups[names[0]], prefix="")]
    tables = [_grouping(name, predictions.groups[name], prefix=f"{name}=") for name in names]
    crossed = [
        _cross(some) for count in range(2, len(tables) + 1) for some in itertools.combinations(tables, count)
    ]
    return tables + crossed


def _grouping(name: str, column: NumpyArray, *, prefix: str) -> tuple[str, Tensor, Sequence[str]]:
    values, group = np.unique(column, return_inverse=True)
    if len(values) > MAX_ROWS:
        raise InputError(f"the group {name!r} has {len(values):,} values: at most {MAX_ROWS:,} can be judged")
    return name, torch.from_numpy(group.reshape(-1)), [f"{prefix}{value}" for value in values]


def _cross(tables: Sequence[tuple[str, Tensor, Sequence[str]]]) -> tuple[str, Tensor, Sequence[str]]:
    group, names = tables[0][1], list(tables[0][2])
    for _, other, more in tables[1:]:
        pairs, group = torch.unique(group * len(more) + other, return_inverse=True)
        names = [f"{names[pair // len(more)]}, {more[pair % len(more)]}" for pair in pairs.tolist()]
    return " x ".join(name for name, _, _ in tables), group, names
