"""How a claim is judged, part by part.

A part is a comparison of one ensemble on one data set under one condition. It is *shown* where the whole
interval lies on the claimed side, *consistent* where the estimate does and the interval reaches across,
*undecided* where the estimate lies on the other side and the interval reaches across, *contradicted* where
the whole interval lies on the other side, or *not run*. A claim with a margin counts what lies within it as
the claimed side.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from calmix.errors import one_of
from calmix.metrics import Interval
from calmix.paper.numbers import published_number
from calmix.paper.regime import Method, Regime, method_title
from calmix.runs.augmentation import parse_augmentation
from calmix.study.estimates import Estimate, NotRunError
from calmix.study.quantities import Quantity

ROUNDING = 1e-9  # an estimate at the margin is within it
WORDS = ("shown", "consistent", "undecided", "contradicted", "not run")
POINTS = "points"
Side: TypeAlias = Literal["above", "below"]


@dataclass(frozen=True)
class Part:
    """One comparison with its verdict; `paper` is the paper's value of the estimate, `regime` names the scale
    of its runs and what they change of it. `limit` is where the claimed side ends: 0, or a margin beyond."""

    ensemble: str
    dataset: str
    condition: str
    comparison: str
    estimate: float | None = None
    interval: tuple[float, float] | None = None
    paper: float | None = None
    seeds: int = 0
    verdict: str = "not run"
    provisional: bool = False
    missing: str = ""
    regime: str = ""
    unit: str = POINTS
    limit: float = 0.0

    @property
    def in_points(self) -> bool:
        """Whether its numbers are shares, which text and figures show in per cent and points."""
        return self.unit == POINTS


@dataclass(frozen=True)
class Size:
    """The size of an effect beside the paper's; it carries no verdict."""

    ensemble: str
    dataset: str
    text: str
    value: float
    paper: float | None = None


@dataclass(frozen=True)
class ClaimResult:
    """A claim with its parts."""

    id: str
    text: str
    parts: tuple[Part, ...]
    sizes: tuple[Size, ...] = ()
    short: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """Parts by verdict, in the order of WORDS."""
        counts = Counter(part.verdict for part in self.parts)
        return {word: counts[word] for word in WORDS if counts[word]}

    @property
    def line(self) -> str:
        return ", ".join(f"{count} {word}" for word, count in self.counts.items())


def verdict(interval: Interval, side: Side, margin: float = 0.0) -> str:
    """The word for an interval and the claimed side of 0.

    >>> verdict(Interval(1.0, -0.5, 2.5), "above"), verdict(Interval(1.0, -0.5, 2.5), "below")
    ('consistent', 'undecided')
    """
    one_of("side", side, ("above", "below"))
    if math.isnan(interval.value):
        return "not run"
    sign = 1 if side == "above" else -1
    low, high = sorted((sign * interval.low, sign * interval.high))
    if low > -margin:
        return "shown"
    if high < -margin:
        return "contradicted"
    return "consistent" if sign * interval.value > -margin - ROUNDING else "undecided"


@dataclass(frozen=True)
class Judge:
    """Judges comparisons of one ensemble in one regime."""

    regime: Regime
    ensemble: str

    def compare(
        self,
        quantity: Quantity,
        this: str | Method,
        that: str | Method,
        side: Side,
        *,
        margin: float = 0.0,
        condition: str = "clean",
    ) -> Part:
        """The difference of a quantity between two methods; an augmentation alone is of this ensemble."""
        first, second = self._method(this), self._method(that)
        paper = [published_number(quantity.name, (self.regime.dataset, *m)) for m in (first, second)]
        published = paper[0][0] - paper[1][0] if paper[0] and paper[1] else None
        names = [parse_augmentation(m[1]).title for m in (first, second)]
        if first[0] != second[0]:
            names = [method_title(m) for m in (first, second)]

        def difference() -> Estimate:
            return self.regime.estimate(first, quantity) - self.regime.estimate(second, quantity)

        name, unit = f"{quantity.title}: {names[0]} - {names[1]}", _unit(quantity)
        look: Any = {"margin": margin, "condition": condition, "paper": published, "unit": unit}
        return self.part(name, difference, side, **look)

    def level(self, quantity: Quantity, augment: str, side: Side, *, condition: str = "clean") -> Part:
        """A quantity of one method against 0."""
        method = self._method(augment)
        name, unit = f"{quantity.title}: {parse_augmentation(method[1]).title}", _unit(quantity)

        def value() -> Estimate:
            return self.regime.estimate(method, quantity)

        return self.part(name, value, side, condition=condition, unit=unit)

    def part(
        self,
        comparison: str,
        estimate: Callable[[], Estimate],
        side: Side,
        *,
        margin: float = 0.0,
        condition: str = "clean",
        paper: float | None = None,
        unit: str = POINTS,
    ) -> Part:
        try:
            value = estimate()
        except NotRunError as missing:
            return self.not_run(comparison, str(missing), condition=condition, paper=paper)
        look: Any = {"margin": margin, "condition": condition, "paper": paper, "unit": unit}
        return self.judge(comparison, value.interval, value.seeds, side, **look)

    def judge(
        self,
        comparison: str,
        interval: Interval,
        seeds: int,
        side: Side,
        *,
        margin: float = 0.0,
        condition: str = "clean",
        paper: float | None = None,
        unit: str = POINTS,
    ) -> Part:
        """An interval that is known, whatever it came from."""
        return Part(
            *(self.ensemble, self.regime.dataset, condition, comparison),
            estimate=interval.value,
            interval=(interval.low, interval.high),
            paper=paper,
            seeds=seeds,
            verdict=verdict(interval, side, margin),
            provisional=seeds == 1,
            unit=unit,
            limit=margin if side == "below" else -margin,
        )

    def not_run(
        self, comparison: str, missing: str, *, condition: str = "clean", paper: float | None = None
    ) -> Part:
        where = (self.ensemble, self.regime.dataset, condition)
        return Part(*where, comparison, paper=paper, missing=f"needs {missing}")

    def ratio(self, quantity: Quantity, this: str, that: str) -> Iterator[Size]:
        """A quantity of one method as a multiple of another's."""
        methods = [self._method(augment) for augment in (this, that)]
        paper = [published_number(quantity.name, (self.regime.dataset, *m)) for m in methods]
        values = [quantity.values(self.regime.results.get(m, ())) for m in methods]
        if all(values) and np.mean(values[1]) > 0:
            text = f"{quantity.title}: {parse_augmentation(this).title} / {parse_augmentation(that).title}"
            value = float(np.mean(values[0]) / np.mean(values[1]))
            published = paper[0][0] / paper[1][0] if paper[0] and paper[1] else None
            yield Size(self.ensemble, self.regime.dataset, text, value, published)

    def _method(self, method: str | Method) -> Method:
        return (self.ensemble, method) if isinstance(method, str) else method


def _unit(quantity: Quantity) -> str:
    return quantity.title if quantity.unit == "number" else POINTS


Outcome: TypeAlias = Part | Size
Rule: TypeAlias = Callable[[Judge], Iterator[Outcome]]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, the docstring of the `rule` that judges it for one of the `ensembles` that it
    speaks of; it decorates that rule.

    `dataset` is where it speaks of one of its own; of those in `except_on` it does not speak. `short` is its
    name in a figure, where the sentence is too long for one.
    """

    id: str
    ensembles: tuple[str, ...] = ("batch", "mc", "deep")
    dataset: str | None = None
    except_on: tuple[str, ...] = ()
    short: str = ""
    rule: Rule = lambda judge: iter(())

    def __call__(self, rule: Rule) -> "Claim":
        return replace(self, rule=rule)

    @property
    def text(self) -> str:
        return " ".join((self.rule.__doc__ or "").split())
