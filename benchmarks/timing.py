"""Timing: the best of several interleaved repeats, in CPU seconds of this process or in wall-clock time."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One row of the table: a measured value, its limits or None, and what it was before it was worked on."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    before: float | None = None

    @property
    def limit(self) -> str:
        if self.at_most is not None:
            return f"at most {number(self.at_most)}"
        if self.at_least is not None:
            return f"at least {number(self.at_least)}"
        return ""

    @property
    def within_limit(self) -> bool:
        below = self.at_most is None or self.value <= self.at_most
        return below and (self.at_least is None or self.value >= self.at_least)

    @property
    def result(self) -> str:
        return "" if not self.limit else "ok" if self.within_limit else "exceeded"


def number(value: float) -> str:
    """Three digits, or all of those before the point.

    >>> number(12345.6), number(1.2345), number(0.00012345)
    ('12,346', '1.23', '0.000123')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def cpu_seconds(*functions: Callable[[], object], repeats: int = 5, seconds: float = 6.0) -> list[float]:
    """Best CPU time of each function; repeats are interleaved, so that a slow moment affects all of them.

    One call of each comes first and is not measured. No repeat starts after so many `seconds`, except the
    first.
    """
    return _best(time.process_time, functions, repeats, seconds)


def wall_seconds(*functions: Callable[[], object], repeats: int = 3, seconds: float = 10.0) -> list[float]:
    """The same by the clock: for work that other processes or several threads do; it takes idle cores."""
    return _best(time.perf_counter, functions, repeats, seconds)


def _best(
    clock: Callable[[], float], functions: tuple[Callable[[], object], ...], repeats: int, seconds: float
) -> list[float]:
    best = [float("inf")] * len(functions)
    for function in functions:
        function()
    end = time.monotonic() + seconds
    for repeat in range(repeats):
        if repeat and time.monotonic() > end:
            break
        for i, function in enumerate(functions):
            gc.collect()
            start = clock()
            function()
            best[i] = min(best[i], clock() - start)
    return best
