"""What one pair of hands does at a time: a run, or one member of a deep ensemble."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol

import torch

from calmix import launch
from calmix.errors import InputError
from calmix.evaluate import evaluate
from calmix.launch import Machine
from calmix.progress import Listener, Step
from calmix.recipe import Recipe


@dataclass(frozen=True)
class Task:
    """Train a recipe, or one `member` of its deep ensemble; evaluate it when it is whole."""

    recipe: Recipe
    member: int | None = None
    corruptions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        recipe = self.recipe
        member = "" if self.member is None else f" member {self.member}"
        return f"{recipe.dataset} {recipe.ensemble} {recipe.augment} seed {recipe.seed}{member}"


@dataclass(frozen=True)
class Place:
    """Where tasks are done: the folder of runs, that of data sets, and the machine."""

    out: Path
    root: Path | None = None
    machine: Machine = field(default_factory=Machine)


@dataclass(frozen=True)
class Done:
    """A task that has ended; `error` says why it failed, and is empty where it did not."""

    task: Task
    error: str = ""


class Hands(Protocol):
    """Who does tasks: this process, several, or a cluster."""

    def __enter__(self) -> "Hands": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def submit(self, task: Task) -> None:
        """Take a task; the first are begun first."""

    def finished(self) -> Iterator[Done]:
        """Tasks as they end, until none is left; meanwhile more may be submitted."""


def divide(recipe: Recipe, corruptions: tuple[str, ...]) -> list[Task]:
    """The tasks that can begin at once: the members of a deep ensemble that do not wait for each other."""
    coupled = "camixup" in recipe.mixing and recipe.gap_of == "pool"
    if recipe.ensemble != "deep" or recipe.members == 1 or coupled:
        return [Task(recipe, None, corruptions)]
    return [Task(recipe, member, corruptions) for member in range(recipe.members)]


def perform(task: Task, place: Place, listener: Listener) -> None:
    """Do a task from wherever an earlier attempt left it."""
    named = Named(task.name, listener)
    run = launch.train(
        task.recipe, place.out, listener=named, root=place.root, machine=place.machine, member=task.member
    )
    if task.member is None:
        device = (
            "cuda" if place.machine.accelerator in ("auto", "cuda") and torch.cuda.is_available() else "cpu"
        )
        evaluate(run, listener=named, root=place.root, corruptions=task.corruptions, device=device)


def attempt(task: Task, place: Place, listener: Listener) -> Done:
    """Do a task; what is wrong with its input is told, not raised, for the sake of the other tasks."""
    try:
        perform(task, place, listener)
    except InputError as error:
        return Done(task, str(error))
    return Done(task)


@dataclass(frozen=True)
class Named:
    """Passes progress on under the task's name; the ends of its inner works are not the task's end."""

    name: str
    listener: Listener

    def step(self, step: Step) -> None:
        inner = step.name if step.name in ("predicting", "judging") else ""
        text = " ".join(filter(None, (inner, step.text)))
        self.listener.step(Step(self.name, min(step.done, 0.999 * step.total), step.total, text))

    def note(self, text: str) -> None:
        if not text.endswith("trained already"):
            self.listener.note(f"{self.name}: {text}")


class OneByOne:
    """Hands that do one task after the other, in this process."""

    def __init__(self, place: Place, listener: Listener) -> None:
        self.place, self.listener = place, listener
        self.waiting: list[Task] = []

    def __enter__(self) -> "OneByOne":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.waiting.clear()

    def submit(self, task: Task) -> None:
        self.waiting.append(task)

    def finished(self) -> Iterator[Done]:
        while self.waiting:
            yield attempt(self.waiting.pop(0), self.place, self.listener)
