"""One bar for many tasks: how much of the work is done, and the time left, from the start."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from calmix.progress import Event, Finished, Progress, Reporter

NAME = "all runs"
TRUSTED = 0.02  # share of the work after which its measured speed replaces the forecast


@dataclass
class OverallProgress:
    """A reporter that passes every event on, and after each says how much of all tasks is done.

    `weights` are hours of what is left of each task by its name, forecast (`in_hours`) or relative; `workers`
    run at once. What a task had done when it was resumed is no part of it.
    """

    reporter: Reporter
    weights: Mapping[str, float]
    workers: int = 1
    in_hours: bool = False
    clock: Callable[[], float] = time.monotonic
    shares: dict[str, float] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    before: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def __call__(self, event: Event) -> None:
        self.reporter(event)
        if isinstance(event, Progress) and event.task in self.weights:
            done = min(1.0, event.done / event.total) if event.total else 0.0
            before = self.before.setdefault(event.task, done)
            share = (done - before) / (1 - before) if before < 1 else 1.0
            self.shares[event.task] = max(self.shares.get(event.task, 0.0), share)
            self.report()
        elif isinstance(event, Finished) and event.task in self.weights:
            self.finished.add(event.task)
            self.shares[event.task] = 1.0
            self.report()

    def report(self) -> None:
        """Say how far all tasks are."""
        total = sum(self.weights.values()) or 1.0
        done = sum(self.weights[name] * share for name, share in self.shares.items())
        text = f"{len(self.finished)} of {len(self.weights)} tasks{self._time_left(done, total)}"
        self.reporter(Progress(NAME, 100 * done / total, 100.0, text))

    def _time_left(self, done: float, total: float) -> str:
        elapsed = (self.clock() - self.started) / 3600
        if done > TRUSTED * total and elapsed > 0:
            hours = elapsed * (total - done) / done
        elif self.in_hours:
            hours = (total - done) / self.workers
        else:
            return ""
        return f", about {hours_text(hours)} left"


def hours_text(hours: float) -> str:
    """
    >>> hours_text(0.2), hours_text(3.14159)
    ('12 min', '3.1 h')
    """
    return f"{60 * hours:.0f} min" if hours < 1 else f"{hours:,.1f} h"
