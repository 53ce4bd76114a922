"""Where an effect changes its sign along x, whatever its shape between the points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calmix.errors import InputError
from calmix.metrics import Interval


@dataclass(frozen=True)
class Crossing:
    """`last` is the largest x whose effect is above 0 and `first` the smallest whose effect is below it, with
    their whole intervals; None where there is none. `value` lies between the two, where the line through
    their points (over log x) is 0; None where they are not in this order. `unclear` are the x whose interval
    holds 0."""

    last: float | None
    first: float | None
    value: float | None
    unclear: tuple[float, ...] = ()


def find_crossing(x: Sequence[float], effects: Sequence[Interval]) -> Crossing:
    """Between which x effects turn from above to below 0. Points whose interval holds 0 decide nothing.

    >>> effects = [Interval(2, 1, 3), Interval(1, -1, 3), Interval(-2, -3, -1)]
    >>> find_crossing([1, 2, 4], effects)
    Crossing(last=1, first=4, value=2.0, unclear=(2,))
    """
    if len(x) != len(effects) or any(not place > 0 for place in x):
        raise InputError(f"x must have a positive number for each effect, got {len(x)} for {len(effects)}")
    above = max(((p, e.value) for p, e in zip(x, effects, strict=True) if e.low > 0), default=None)
    below = min(((p, e.value) for p, e in zip(x, effects, strict=True) if e.high < 0), default=None)
    value = None
    if above and below and above[0] < below[0]:
        share = above[1] / (above[1] - below[1])
        value = math.exp((1 - share) * math.log(above[0]) + share * math.log(below[0]))
    unclear = tuple(sorted(p for p, e in zip(x, effects, strict=True) if e.low <= 0 <= e.high))
    return Crossing(above[0] if above else None, below[0] if below else None, value, unclear)
