"""What the pool's gap would be with more members, forecast from those that are there."""

import math
from dataclasses import dataclass

from calmix.auditing.gaps import normal_quantile
from calmix.auditing.summary import Summary
from calmix.metrics import Interval


@dataclass(frozen=True)
class MoreMembers:
    """The gap of a pool of so many members, None for any number of them."""

    members: int | None
    gap: Interval


def forecast_more_members(summary: Summary, *, level: float) -> tuple[MoreMembers, ...]:
    """Of twice as many members, and of infinitely many; nothing for one member.

    By the law g(M) = g(1) + (g(inf) - g(1)) (1 - 1/M), for members that are alike: each further member takes
    away less confidence. g(1) is the members' mean gap and g(M) the pool's, so that a forecast is a mean over
    the examples, and its interval the normal one.
    """
    if summary.members < 2:
        return ()
    one, pool = summary.member_hit - summary.member_confidence, summary.hit - summary.confidence
    forecasts = []
    for members in (2 * summary.members, None):
        share = (1 if members is None else 1 - 1 / members) / (1 - 1 / summary.members)
        gaps = one + share * (pool - one)
        half = normal_quantile(level) * float(gaps.std()) / math.sqrt(summary.examples)
        gap = float(gaps.mean())
        forecasts.append(MoreMembers(members, Interval(gap, gap - half, gap + half, level=level)))
    return tuple(forecasts)


def describe_more_members(forecasts: tuple[MoreMembers, ...]) -> str:
    """
    >>> low, high = Interval(0.02, 0.01, 0.03), Interval(0.025, 0.01, 0.04)
    >>> describe_more_members((MoreMembers(8, low), MoreMembers(None, high)))[:70]
    'Members of the same kind would move the gap to +2.0 % with 8 of them, '
    """
    if not forecasts:
        return ""
    more, most = forecasts
    ends = f"{100 * most.gap.low:+.1f} to {100 * most.gap.high:+.1f}"
    return (
        f"Members of the same kind would move the gap to {100 * more.gap.value:+.1f} % with {more.members} "
        f"of them, and to {100 * most.gap.value:+.1f} % (interval {ends}) with any number."
    )
