"""Where an effect changes its sign along x, whatever its shape between the points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from calmix.errors import InputError
from calmix.metrics import Interval


@dataclass(frozen=True)
class Crossing:
    """`last` is the largest x whose effect is above 0 and `first` the smallest whose effect is below it, with
    their whole intervals; None where there is none. `value` lies between the two, where the effect,
    interpolated from point to point over log x, is 0; None where they are not in this order, or where it is 0
    more than once. `unclear` are the x whose interval holds 0."""

    last: float | None
    first: float | None
    value: float | None
    unclear: tuple[float, ...] = ()


def find_crossing(x: Sequence[float], effects: Sequence[Interval]) -> Crossing:
    """Between which x effects turn from above to below 0. Points whose interval holds 0 do not decide that.

    >>> effects = [Interval(2, 1, 3), Interval(1, -1, 3), Interval(-1, -2, -0.5)]
    >>> found = find_crossing([1, 2, 8], effects)
    >>> found.last, found.first, round(found.value, 6), found.unclear
    (1, 8, 4.0, (2,))
    """
    if len(x) != len(effects) or any(not place > 0 for place in x):
        raise InputError(f"x must have a positive number for each effect, got {len(x)} for {len(effects)}")
    points = sorted(zip(x, effects, strict=True), key=lambda point: point[0])
    last = max((p for p, e in points if e.low > 0), default=None)
    first = min((p for p, e in points if e.high < 0), default=None)
    zeros: list[float] = []
    if last is not None and first is not None:
        between = [(math.log(p), e.value) for p, e in points if last <= p <= first]
        for (p, above), (q, below) in pairwise(between):
            if above > 0 >= below or above < 0 <= below:
                zeros.append(math.exp(p + (q - p) * above / (above - below)))
    unclear = tuple(p for p, e in points if e.low <= 0 <= e.high)
    return Crossing(last, first, zeros[0] if len(zeros) == 1 else None, unclear)
