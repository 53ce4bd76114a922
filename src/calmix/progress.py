"""Progress of long work: the events that are reported, and the display on standard error.

A reporter is any callable that takes an event: the display, a logger, the end of a pipe to another process.
"""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from calmix.errors import printable


@dataclass(frozen=True)
class Progress:
    """`done` of `total` units of `task`; `text` is its latest state."""

    task: str
    done: float
    total: float
    text: str = ""


@dataclass(frozen=True)
class Finished:
    """`task` has ended."""

    task: str
    text: str = ""


@dataclass(frozen=True)
class Message:
    """A line that stays: a warning, a decision."""

    text: str
    task: str = ""


@dataclass(frozen=True)
class Numbers:
    """Numbers of `task` at a step (an epoch), for loggers."""

    task: str
    step: int
    values: Mapping[str, float]


Event: TypeAlias = Progress | Finished | Message | Numbers
Reporter: TypeAlias = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A reporter for tests and for library calls."""


def within(task: str, reporter: Reporter) -> Reporter:
    """A reporter for one part of `task`: events pass under the task's name, and the part's end is not its
    end.

    >>> within("run 1", print)(Finished("predicting", "75 sets"))
    Message(text='predicting: 75 sets', task='run 1')
    """

    def report(event: Event) -> None:
        if isinstance(event, Finished):
            if event.text:
                reporter(Message(f"{event.task}: {event.text}", task))
        elif isinstance(event, Message):
            reporter(replace(event, task=task))
        elif isinstance(event, Progress):
            text = event.text or event.task
            reporter(replace(event, task=task, text=text))
        else:
            reporter(replace(event, task=task))

    return report


class Display:
    """Bars where standard error is a terminal; otherwise a line every few seconds and one when a task ends.

    Standard output is left to results.
    """

    def __init__(self, *, seconds_between_lines: float = 10.0) -> None:
        self.console = Console(file=sys.stderr)
        self.seconds_between_lines = seconds_between_lines
        self.printed: dict[str, float] = {}
        self.tasks: dict[str, TaskID] = {}
        self.bars: Bars | None = None
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TimeRemainingColumn())
            self.bars = Bars(*columns, TextColumn("{task.fields[text]}"), console=self.console)

    def __enter__(self) -> "Display":
        if self.bars:
            self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bars:
            self.bars.stop()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Message):
            self._print(f"{event.task}: {event.text}" if event.task else event.text)
        elif isinstance(event, Finished):
            if self.bars and event.task in self.tasks:
                self.bars.remove_task(self.tasks.pop(event.task))
            self._print(f"{event.task}: {event.text}" if event.text else f"{event.task}: done")
        elif isinstance(event, Progress):
            if self.bars:
                self._bar(self.bars, event)
            else:
                self._line(event)

    def _bar(self, bars: Bars, event: Progress) -> None:
        if event.task not in self.tasks:
            self.tasks[event.task] = bars.add_task(escape(printable(event.task)), total=event.total, text="")
        fields: dict[str, Any] = {"text": escape(printable(event.text))} if event.text else {}
        bars.update(self.tasks[event.task], completed=event.done, total=event.total, **fields)

    def _line(self, event: Progress) -> None:
        now = time.monotonic()
        # The first line comes after a while too: short work prints its end alone.
        if now - self.printed.setdefault(event.task, now) >= self.seconds_between_lines:
            self.printed[event.task] = now
            self._print(f"{event.task}: {100 * event.done / event.total:.0f} %  {event.text}".rstrip())

    def _print(self, text: str) -> None:
        text = printable(text)
        if self.bars:
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr, flush=True)
