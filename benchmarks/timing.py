"""Timing: CPU seconds of this process, the best of several interleaved repeats."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One row of the table: a measured value, and its limits or None."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def limit(self) -> str:
        if self.at_most is not None:
            return f"at most {self.at_most:,.4g}"
        if self.at_least is not None:
            return f"at least {self.at_least:,.4g}"
        return ""

    @property
    def within_limit(self) -> bool:
        below = self.at_most is None or self.value <= self.at_most
        return below and (self.at_least is None or self.value >= self.at_least)


def cpu_seconds(*functions: Callable[[], object], repeats: int = 5) -> list[float]:
    """Best CPU time of each function; repeats are interleaved, so that a slow moment affects all of them."""
    best = [float("inf")] * len(functions)
    for function in functions:
        function()
    for _ in range(repeats):
        for i, function in enumerate(functions):
            gc.collect()
            start = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - start)
    return best
