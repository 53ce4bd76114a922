"""What long work shows: bars on a terminal, plain lines in a log."""

import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


@dataclass(frozen=True)
class Step:
    """`done` of `total` units of the work called `name`; `text` is the latest news of it."""

    name: str
    done: float
    total: float
    text: str = ""


class Listener(Protocol):
    """Who is told how far work has come."""

    def step(self, step: Step) -> None: ...

    def note(self, text: str) -> None:
        """A line that stays: a warning, an end."""


class Display:
    """Bars where standard error is a terminal; otherwise a line every few seconds and one at the end of
    each work.

    Standard output is left to results.
    """

    def __init__(self, *, every: float = 10.0) -> None:
        self.console = Console(file=sys.stderr)
        self.every = every
        self.spoken: dict[str, float] = {}
        self.tasks: dict[str, TaskID] = {}
        self.bars: Progress | None = None
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TimeRemainingColumn())
            self.bars = Progress(*columns, TextColumn("{task.fields[text]}"), console=self.console)

    def __enter__(self) -> "Display":
        if self.bars:
            self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bars:
            self.bars.stop()

    def step(self, step: Step) -> None:
        if self.bars:
            self._bar(self.bars, step)
            return
        now = time.monotonic()
        # The first line comes after a while too: short work is told by its end alone.
        if step.done >= step.total or now - self.spoken.setdefault(step.name, now) >= self.every:
            self.spoken[step.name] = now
            print(
                f"{step.name}: {100 * step.done / step.total:.0f} %  {step.text}".rstrip(),
                file=sys.stderr,
                flush=True,
            )

    def note(self, text: str) -> None:
        if self.bars:
            self.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def _bar(self, bars: Progress, step: Step) -> None:
        if step.name not in self.tasks:
            self.tasks[step.name] = bars.add_task(step.name, total=step.total, text="")
        fields: dict[str, Any] = {"text": step.text} if step.text else {}
        bars.update(self.tasks[step.name], completed=step.done, total=step.total, **fields)
        if step.done >= step.total:
            self.note(f"{step.name}: {step.text}" if step.text else step.name)
            bars.remove_task(self.tasks.pop(step.name))


class Silence:
    """A listener for tests and libraries."""

    def step(self, step: Step) -> None:
        pass

    def note(self, text: str) -> None:
        pass
