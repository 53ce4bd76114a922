"""Tasks: the units of work that executors run, a run or some members of a deep ensemble."""

import errno
from dataclasses import dataclass, field
from pathlib import Path

import torch

from calmix.errors import InputError
from calmix.progress import Reporter, within
from calmix.runs.evaluate import evaluate
from calmix.runs.launch import Machine, train
from calmix.runs.recipe import Recipe


@dataclass(frozen=True)
class Task:
    """Train a recipe, or some `members` of its deep ensemble; evaluate it when it is whole. A `note` tells it
    apart from others of the same method."""

    recipe: Recipe
    members: tuple[int, ...] | None = None
    corruptions: tuple[str, ...] = ()
    note: str = ""

    @property
    def name(self) -> str:
        recipe = self.recipe
        members = "" if self.members is None else f" member {', '.join(map(str, self.members))}"
        note = f", {self.note}," if self.note else ""
        return f"{recipe.dataset} {recipe.ensemble} {recipe.augment}{note} seed {recipe.seed}{members}"


@dataclass(frozen=True)
class Context:
    """What all tasks share: the folder of runs, that of data sets, corrupted images, and the machine."""

    out: Path
    data_root: Path | None = None
    corrupted_folder: Path | None = None
    machine: Machine = field(default_factory=Machine)


@dataclass(frozen=True)
class TaskResult:
    """A task that has ended; `error` is empty where it succeeded. After a `fatal` one, such as a full disk,
    all others would fail too."""

    task: Task
    error: str = ""
    fatal: bool = False


def divide(recipe: Recipe, corruptions: tuple[str, ...], *, jobs: int = 1) -> list[Task]:
    """The tasks that can start at once: the members of a deep ensemble that do not wait for each other.

    Members that do wait are one task; with `jobs`, one for each process, which must all run at the same
    time.
    """
    if recipe.streams == 1:
        return [Task(recipe, None, corruptions)]
    if recipe.couples_members:
        jobs = min(jobs, recipe.members)
        groups = [tuple(range(j, recipe.members, jobs)) for j in range(jobs)]
        return [Task(recipe, group if jobs > 1 else None, corruptions) for group in groups]
    return [Task(recipe, (member,), corruptions) for member in range(recipe.members)]


def run_task(task: Task, context: Context, reporter: Reporter) -> None:
    """Run a task from wherever an earlier attempt left it."""
    report = within(task.name, reporter)
    root, machine, members = context.data_root, context.machine, task.members
    run = train(task.recipe, context.out, reporter=report, data_root=root, machine=machine, members=members)
    if members is None:
        cuda = machine.accelerator in ("auto", "cuda") and torch.cuda.is_available()
        evaluate(
            run,
            corruptions=task.corruptions,
            corrupted_folder=context.corrupted_folder,
            reporter=report,
            data_root=root,
            device="cuda" if cuda else "cpu",
        )


def try_task(task: Task, context: Context, reporter: Reporter) -> TaskResult:
    """Run a task; bad input and errors of files are returned, not raised, for the sake of the other tasks."""
    try:
        run_task(task, context, reporter)
    except InputError as error:
        return TaskResult(task, str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fatal = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
        return TaskResult(task, f"{where}{error.strerror or error}", fatal)
    return TaskResult(task)
