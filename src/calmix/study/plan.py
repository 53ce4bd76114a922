"""Plan of a study: which runs it needs, how far each is, and how the rest is executed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from calmix.corruptions import SEVERITIES
from calmix.errors import InputError
from calmix.progress import Finished, Message, Reporter
from calmix.runs import checkpoint
from calmix.runs.folder import Run, read_epochs
from calmix.runs.recipe import Recipe
from calmix.study.evidence import FILE
from calmix.study.executors import Executor
from calmix.study.overall import NAME, OverallProgress
from calmix.study.results import recipe_differences
from calmix.study.tasks import Task, divide

Plan: TypeAlias = Mapping[Recipe, tuple[str, ...]]  # each run with the corruptions it is evaluated under
State: TypeAlias = Literal["finished", "started", "missing"]


EVALUATION = 0.05  # of a deep ensemble's time, roughly


def run_state(recipe: Recipe, corruptions: Sequence[str], out: Path) -> tuple[State, float]:
    """How far a run is, and the share of its training that is left."""
    run = Run(out / recipe.name, recipe)
    if is_finished(run, corruptions):
        return "finished", 0.0
    if run.trained:
        return "started", 0.0
    folders = [run.stream_folder(k) for k in range(recipe.streams)]
    epochs = [read_epochs(folder / "metrics.jsonl") for folder in folders]
    done = sum(history[-1].epoch for history in epochs if history)
    started = any((folder / checkpoint.NEWEST).exists() for folder in folders)
    return ("started" if started else "missing"), 1 - done / (recipe.streams * recipe.epochs)


def is_finished(run: Run, corruptions: Sequence[str]) -> bool:
    """Whether a run is evaluated under these corruptions, and has its weights or evidence in their place."""
    try:
        summary = run.summary
    except InputError:
        return False
    sets = [(name, severity) for name in corruptions for severity in SEVERITIES]
    if not all(severity in summary.corrupted.get(name, {}) for name, severity in sets):
        return False
    what = ["validation", "test", *(f"{name}-{severity}" for name, severity in sets)]
    predicted = run.trained and all(run.predictions_path(each).exists() for each in what)
    return predicted or (run.folder / FILE).exists()


def locate_run(recipe: Recipe, corruptions: Sequence[str], folders: Sequence[Path]) -> Run:
    """The finished run in one of `folders`; where none has it, its place in the first."""
    runs = [Run(folder / recipe.name, recipe) for folder in folders]
    return next((run for run in runs if is_finished(run, corruptions)), runs[0])


def run_plan(
    plan: Plan,
    out: Path,
    executor: Executor,
    reporter: Reporter,
    *,
    jobs: int = 1,
    elsewhere: Sequence[Path] = (),
    on_finished: Callable[[Run], None] = lambda run: None,
    hours: Mapping[Recipe, float] | None = None,
    workers: int = 1,
) -> dict[str, str]:
    """Train and evaluate what is missing; returns the errors of the tasks that failed, by their names.

    What is finished in a folder of `elsewhere` is not repeated; `on_finished` sees every run that is
    evaluated now. The longest tasks start first. When the last member of a deep ensemble is trained, the
    ensemble is written and evaluated next, before other tasks. A single run whose members wait for each other
    is divided over `jobs` processes. `hours` forecasts what is left of each run on one of `workers`, for the
    time left of all.
    """
    tasks: list[Task] = []
    notes = recipe_differences(list(dict.fromkeys(recipe.replace(seed=0) for recipe in plan)))
    for recipe, corruptions in plan.items():
        if not is_finished(locate_run(recipe, corruptions, [out, *elsewhere]), corruptions):
            whole = Run(out / recipe.name, recipe).trained
            together = jobs if len(plan) == 1 else 1
            own = [Task(recipe, None, corruptions)] if whole else divide(recipe, corruptions, jobs=together)
            tasks += [replace(task, note=notes[recipe.replace(seed=0)]) for task in own]
    members_left = {task.recipe: 0 for task in tasks}
    for task in tasks:
        members_left[task.recipe] += task.members is not None
    total = len(tasks) + sum(count > 0 for count in members_left.values())
    if tasks:
        overall = OverallProgress(reporter, _weights(tasks, hours), workers, hours is not None)
        executor.reporter = reporter = overall
        overall.report()
    errors: dict[str, str] = {}
    with executor:
        for task in sorted(tasks, key=cost, reverse=True):
            executor.submit(task)
        for result in executor.results():
            task = result.task
            if result.fatal:
                raise InputError(result.error)
            if result.error:
                errors[task.name] = result.error
                reporter(Message(f"failed: {result.error}", task.name))
            elif task.members is None:
                on_finished(Run(out / task.recipe.name, task.recipe))
            else:
                members_left[task.recipe] -= 1
                if members_left[task.recipe] == 0:
                    executor.submit(replace(task, members=None), first=True)
            reporter(Finished(task.name))
    if tasks:
        reporter(Finished(NAME, f"{total} tasks"))
    return errors


def _weights(tasks: Sequence[Task], hours: Mapping[Recipe, float] | None) -> dict[str, float]:
    """Hours of each task, or numbers in proportion; those of a deep ensemble's members and of its evaluation
    add up to its own."""
    weights: dict[str, float] = {}
    for recipe in dict.fromkeys(task.recipe for task in tasks):
        own = [task for task in tasks if task.recipe == recipe]
        whole = hours.get(recipe, 0.0) if hours is not None else sum(map(cost, own))
        last = replace(own[0], members=None)
        if own != [last]:
            weights |= {task.name: (1 - EVALUATION) * whole / len(own) for task in own}
            whole *= EVALUATION
        weights[last.name] = whole
    return weights


def cost(task: Task) -> float:
    """Training time of a task relative to others, roughly: images, epochs, members and width."""
    recipe = task.recipe
    members = recipe.streams * recipe.members_per_stream
    if task.members is not None:
        members = len(task.members)
    width = recipe.network_options.get("width", 1)
    images = recipe.train_size or 1_000_000
    return float(recipe.epochs * images * members * recipe.rows_per_image * width)
