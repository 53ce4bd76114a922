"""Comparison of two models, or of one at two dates: differences of metrics, with their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from calmix import metrics
from calmix.auditing.matching import match_classes, match_ids, match_rows, require_labels
from calmix.errors import InputError
from calmix.metrics import Interval
from calmix.metrics.checks import check_count
from calmix.metrics.resampling import resampled_values
from calmix.predictions import Predictions
from calmix.predictions.pooling import pool_rows
from calmix.records import to_json

VERSION = 1
Better: TypeAlias = Literal["a", "b", "unclear"]
COVERED = ("accuracy", "gap", "nll", "brier", "dce")  # intervals by resampling hold their level
APPROXIMATE = ("ece", "ace", "sce", "tace")  # resampling biases both sides alike, not exactly alike
CLASS_WISE = ("sce", "tace")
ROUNDING = 1e-12  # a difference that sums of equal numbers in another order make
MAX_VALUES = 4_000_000_000  # probabilities that class-wise metrics look at over all resamples
MIN_RESAMPLES = 200
MIN_EXAMPLES = 30  # of a group or class; below, nothing is said of it


@dataclass(frozen=True)
class Difference:
    """A metric of both sides; `difference` is b - a. `better` is a side where the interval excludes 0."""

    a: float
    b: float
    difference: Interval
    better: Better
    approximate: bool = False


@dataclass(frozen=True)
class RowDifference:
    """The Brier score of a class (one against the rest, over all examples), or of the examples of a group."""

    name: str
    examples: int
    a: float
    b: float
    difference: Interval
    better: Better


@dataclass(frozen=True, eq=False)
class Comparison:
    """Outcome of `compare`; `str` is the page for a terminal."""

    names: tuple[str, str]
    examples: tuple[int, int]
    paired: bool
    metrics: dict[str, Difference]
    classes: tuple[RowDifference, ...]
    groups: dict[str, tuple[RowDifference, ...]]
    level: float
    notes: tuple[str, ...] = field(default=())

    def numbers(self) -> dict[str, Any]:
        """The dictionary behind the JSON."""
        return {
            "version": VERSION,
            "names": list(self.names),
            "examples": list(self.examples),
            "paired": self.paired,
            "level": self.level,
            "metrics": {name: _plain(row) for name, row in self.metrics.items()},
            "classes": [{"name": row.name, "examples": row.examples} | _plain(row) for row in self.classes],
            "groups": {
                group: [{"name": row.name, "examples": row.examples} | _plain(row) for row in rows]
                for group, rows in self.groups.items()
            },
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        return to_json(self.numbers())

    def __str__(self) -> str:
        from calmix.auditing.comparison_text import page

        return page(self)


def compare(
    a: Predictions,
    b: Predictions,
    *,
    paired: bool = True,
    by_id: bool = False,
    names: Sequence[str] = ("a", "b"),
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Compare the pooled predictions of two ensembles: b - a in every metric.

    Paired: both predict the same examples, in the same order or with the same ids (`by_id`); resamples draw
    the same examples of both, so what is hard for both does not blur the difference. Unpaired: different
    examples, such as one model at two dates; both are resampled on their own. Differences of ECE, ACE, SCE
    and TACE have intervals that are approximate. For classes, the Brier score of each against the rest; for
    groups (of `predictions.groups`), the Brier score of their examples; those intervals hold all at once
    (Bonferroni).

    >>> draw = torch.Generator().manual_seed(0)
    >>> logits = 2 * torch.randn(500, 3, generator=draw)
    >>> labels = logits.softmax(1).multinomial(1, generator=draw)[:, 0]
    >>> comparison = compare(Predictions(logits, labels), Predictions(3 * logits, labels), resamples=200)
    >>> comparison.metrics["nll"].better, comparison.metrics["accuracy"].better
    ('a', 'unclear')
    """
    check_count("resamples", resamples, least=2)
    if not 0 < level < 1:
        raise InputError(f"level is {level}: it must be between 0 and 1, such as 0.95")
    if len(names) != 2:
        raise InputError(f"names has {len(names)} entries for two sides: give one for each")
    if by_id and not paired:
        raise InputError("by_id matches the examples of both, and paired=False compares different ones")
    first, second = str(names[0]), str(names[1])
    require_labels(a, first)
    require_labels(b, second)
    b = match_classes(a, b, (first, second))
    notes: list[str] = []
    if by_id:
        a, b, left_out = match_ids(a, b, (first, second))
        if left_out:
            notes.append(f"{left_out} examples are in one of the two only, and were left out.")
    elif paired:
        match_rows(a, b, (first, second))
    sides = [_Side(a), _Side(b)]
    differences = _differences(sides, paired, level, resamples, seed, notes)
    return Comparison(
        names=(first, second),
        examples=(len(a), len(b)),
        paired=paired,
        metrics=differences,
        classes=_class_rows(sides, paired, level, a.class_names),
        groups=_group_rows(sides, paired, level, notes),
        level=level,
        notes=tuple(notes),
    )


class _Side:
    """The pooled probabilities of one side."""

    def __init__(self, predictions: Predictions) -> None:
        assert predictions.labels is not None
        self.predictions, self.labels = predictions, predictions.labels
        self.probs = pool_rows(predictions.logits)

    def brier(self) -> Tensor:
        """Of each example, (N,)."""
        at_label = self.probs.gather(1, self.labels[:, None])[:, 0]
        return self.probs.square().sum(1) - 2 * at_label + 1

    def errors(self, k: int) -> Tensor:
        """(p_k - [y = k])^2 of each example, (N,)."""
        return (self.probs[:, k] - (self.labels == k).double()).square()


def _differences(
    sides: list[_Side], paired: bool, level: float, resamples: int, seed: int, notes: list[str]
) -> dict[str, Difference]:
    chosen = [*COVERED, *APPROXIMATE]
    values = sum(side.probs.numel() for side in sides)
    affordable = min(resamples, max(MIN_RESAMPLES, MAX_VALUES // values))
    if values * affordable > MAX_VALUES:
        chosen = [name for name in chosen if name not in CLASS_WISE]
        notes.append(f"With {values:,} probabilities, {' and '.join(CLASS_WISE)} are left out.")
    functions = [metrics.SCALARS[name] for name in chosen]
    # Unpaired sides must not share their draws, even where they are equally long.
    seeds = (seed, seed) if paired else (2 * seed, 2 * seed + 1)
    drawn = [
        resampled_values(functions, side.probs, side.labels, resamples=affordable, seed=s)
        for side, s in zip(sides, seeds, strict=True)
    ]
    result = {}
    for name, (a, drawn_a), (b, drawn_b) in zip(chosen, *drawn, strict=True):
        interval = _interval(b - a, drawn_b - drawn_a, level)
        result[name] = Difference(
            a, b, interval, _better(name, a, b, drawn_a, drawn_b, interval), name in APPROXIMATE
        )
    if not all(np.isfinite([side.a, side.b]).all() for side in result.values()):
        notes.append("NLL is infinite: some label was given the probability 0.")
    return result


def _interval(value: float, drawn: Tensor, level: float) -> Interval:
    """Quantiles of the resampled differences, moved by their bias: that of an ECE of resampled examples."""
    if not bool(drawn.isfinite().all()) or not np.isfinite(value):
        return Interval(value, float("nan"), float("nan"), len(drawn), level)
    ends = drawn.quantile(drawn.new_tensor([(1 - level) / 2, (1 + level) / 2])) - drawn.mean() + value
    return Interval(value, float(ends[0]), float(ends[1]), len(drawn), level)


def _better(name: str, a: float, b: float, drawn_a: Tensor, drawn_b: Tensor, interval: Interval) -> Better:
    if name == "gap":  # the gap nearer to 0
        interval = _interval(abs(b) - abs(a), drawn_b.abs() - drawn_a.abs(), interval.level)
    return _side(interval, higher_is_better=name == "accuracy")


def _side(interval: Interval, *, higher_is_better: bool = False) -> Better:
    if interval.high < -ROUNDING:
        return "a" if higher_is_better else "b"
    if interval.low > ROUNDING:
        return "b" if higher_is_better else "a"
    return "unclear"


def _class_rows(
    sides: list[_Side], paired: bool, level: float, names: Sequence[str]
) -> tuple[RowDifference, ...]:
    each = 1 - (1 - level) / len(names)
    count = sum(torch.bincount(side.labels, minlength=len(names)) for side in sides)
    examples = (count // 2 if paired else count).tolist()  # type: ignore[union-attr]
    rows = [
        _row(name, examples[k], [side.errors(k) for side in sides], paired, each)
        for k, name in enumerate(names)
    ]
    return _worst_first(rows)


def _group_rows(
    sides: list[_Side], paired: bool, level: float, notes: list[str]
) -> dict[str, tuple[RowDifference, ...]]:
    columns = [side.predictions.groups for side in sides]
    if paired:
        columns = [{**columns[1], **columns[0]}] * 2
    brier = [side.brier() for side in sides]
    result = {}
    for group in columns[0]:
        if group not in columns[1]:
            notes.append(f"Only one of the two has the group {group!r}.")
            continue
        texts = [np.asarray(column[group]).astype(str) for column in columns]
        present = sorted(set(texts[0].tolist()) & set(texts[1].tolist()))
        each = 1 - (1 - level) / max(1, len(present))
        rows = []
        for name in present:
            parts = [b[torch.from_numpy(text == name)] for b, text in zip(brier, texts, strict=True)]
            examples = len(parts[0]) if paired else len(parts[0]) + len(parts[1])
            rows.append(_row(name, examples, parts, paired, each))
        result[group] = _worst_first(rows)
    return result


def _row(name: str, examples: int, errors: list[Tensor], paired: bool, level: float) -> RowDifference:
    """The difference of two means, with its normal interval."""
    a, b = (float(e.mean()) for e in errors)
    few = min(map(len, errors)) < MIN_EXAMPLES or examples < MIN_EXAMPLES
    if few:
        return RowDifference(
            name, examples, a, b, Interval(b - a, float("nan"), float("nan"), level=level), "unclear"
        )
    if paired:
        variance = float((errors[1] - errors[0]).var()) / len(errors[0])
    else:
        variance = sum(float(e.var()) / len(e) for e in errors)
    half = float(torch.special.ndtri(torch.tensor((1 + level) / 2, dtype=torch.float64))) * variance**0.5
    interval = Interval(b - a, b - a - half, b - a + half, level=level)
    return RowDifference(name, examples, a, b, interval, _side(interval))


def _worst_first(rows: list[RowDifference]) -> tuple[RowDifference, ...]:
    """The rows that differ for sure first, by the size of the difference."""
    return tuple(sorted(rows, key=lambda row: (row.better == "unclear", -abs(row.difference.value))))


def _plain(row: Difference | RowDifference) -> dict[str, Any]:
    plain = {
        "a": row.a,
        "b": row.b,
        "difference": row.difference.value,
        "interval": [row.difference.low, row.difference.high],
        "better": row.better,
    }
    return plain | ({"approximate": row.approximate} if isinstance(row, Difference) else {})
