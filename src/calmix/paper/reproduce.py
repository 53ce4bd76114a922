"""From items to results: what is missing is trained and evaluated once, then everything is drawn from the run
folders."""

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from calmix.corruptions import CORRUPTIONS
from calmix.data.catalogue import look_up
from calmix.errors import InputError
from calmix.evaluate import SEVERITIES
from calmix.paper.items import Item
from calmix.paper.study import read_result
from calmix.paper.tasks import Hands, Task, divide
from calmix.progress import Listener, Step
from calmix.recipe import Recipe
from calmix.run_folder import Run

State = Literal["finished", "partly", "missing"]
FOLDER, POINTS = "folder", "clusters"


@dataclass(frozen=True)
class Plan:
    """The runs of some items, each once, with the corruptions it is evaluated under; `skipped` are items
    whose data set is not here, and why."""

    items: tuple[Item, ...]
    dataset: str
    scale: str
    seeds: int
    runs: dict[Recipe, tuple[str, ...]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    shards: int = 1

    def of(self, item: Item) -> list[Recipe]:
        """The runs of an item."""
        if item.name in self.skipped:
            return []
        recipes = item.recipes(self.dataset, self.scale, self.seeds)
        return [replace(recipe, shards=self.shards) for recipe in recipes]


def make_plan(
    items: Sequence[Item],
    *,
    dataset: str,
    scale: str,
    seeds: int,
    shards: int = 1,
    root: Path | None = None,
    absent: bool = False,
) -> Plan:
    """Which runs the items need. A missing data set is an error, a missing image folder skips its item.

    With `absent`, for a forecast, the paper's data sets need not be here: ImageNet at paper scale alone.
    """
    if seeds < 1:
        raise InputError(f"--seeds must be at least 1, got {seeds}")
    plan = Plan(tuple(items), dataset, scale, seeds, shards=shards)
    for item in items:
        if item.corruptions and not item.dataset and dataset == POINTS:
            raise InputError(f"{item.name} shows images under corruption, and {dataset} are points")
        entry = look_up(item.dataset or dataset, root)
        known = absent and (item.dataset != FOLDER or scale == "paper")
        if entry.state != "present" and not known:
            if item.dataset != FOLDER:
                why = entry.problem or entry.remedy
                raise InputError(f"{entry.name} is {entry.state}: {why}; see `calmix data`")
            # Goes into the written results: nothing of this machine.
            plan.skipped[item.name] = f"{entry.name} is {entry.state}; `calmix data` says where its images go"
        for recipe in plan.of(item):
            plan.runs[recipe] = CORRUPTIONS if item.corruptions else plan.runs.get(recipe, ())
    return plan


def state(recipe: Recipe, corruptions: Iterable[str], out: Path) -> tuple[State, float]:
    """How far a run is, and the share of its training that is left."""
    run = Run(out / recipe.name, recipe)
    if run.trained:
        return ("finished" if _evaluated(run, corruptions) else "partly"), 0.0
    done = sum(_epochs(run.stream(k) / "metrics.jsonl") for k in range(run.streams))
    begun = any((run.stream(k) / "checkpoint.pt").exists() for k in range(run.streams))
    return ("partly" if begun else "missing"), 1 - done / (run.streams * recipe.epochs)


def _evaluated(run: Run, corruptions: Iterable[str]) -> bool:
    if (result := read_result(run)) is None:
        return False
    judged = result.summary.get("corrupted", {})
    pairs = [(name, severity) for name in corruptions for severity in SEVERITIES]
    held = ["validation", "test", *(f"{name}-{severity}" for name, severity in pairs)]
    return all(str(severity) in judged.get(name, {}) for name, severity in pairs) and all(
        run.predictions(what).exists() for what in held
    )


def _epochs(path: Path) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(json.loads(path.read_text().splitlines()[-1])["epoch"])
    return 0


def carry_out(plan: Plan, out: Path, hands: Hands, listener: Listener) -> dict[str, str]:
    """Train and evaluate what is missing; returns the tasks that failed, and why.

    The longest tasks begin first. When the last member of a deep ensemble is trained, the ensemble is put
    together and evaluated.
    """
    tasks: list[Task] = []
    for recipe, corruptions in plan.runs.items():
        if state(recipe, corruptions, out)[0] != "finished":
            whole = Run(out / recipe.name, recipe).trained
            tasks += [Task(recipe, None, corruptions)] if whole else divide(recipe, corruptions)
    open_members = {task.recipe: 0 for task in tasks}
    for task in tasks:
        open_members[task.recipe] += task.member is not None
    total = len(tasks) + sum(count > 0 for count in open_members.values())
    failed: dict[str, str] = {}
    with hands:
        for task in sorted(tasks, key=weight, reverse=True):
            hands.submit(task)
        for count, done in enumerate(hands.finished(), start=1):
            task = done.task
            if done.error:
                failed[task.name] = done.error
                listener.note(f"{task.name}: failed: {done.error}")
                open_members[task.recipe] = -1  # its ensemble will not be whole
            elif task.member is not None:
                open_members[task.recipe] -= 1
                if open_members[task.recipe] == 0:
                    hands.submit(Task(task.recipe, None, task.corruptions))
            listener.step(Step(task.name, 1, 1))
            listener.step(Step("all runs", count, total, f"{count} of {total} tasks"))
    return failed


def weight(task: Task) -> float:
    """How long a task takes beside others, roughly: images seen, by how many members and in how many rows."""
    recipe = task.recipe
    members = recipe.members if recipe.ensemble in ("batch", "deep") and task.member is None else 1
    rows = 2 if recipe.mixing in ("regmixup", "mixupmp") else 1
    return recipe.epochs * (recipe.train_size or 1_000_000) * members * rows * recipe.width
