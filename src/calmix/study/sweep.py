"""Sweeps: a grid over recipe fields, trained by the same executors, with smaller deep ensembles for free."""

import dataclasses
import itertools
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from calmix.corruptions import CORRUPTIONS
from calmix.errors import InputError, at_least, one_of
from calmix.progress import Message, Reporter, ignore
from calmix.runs import checkpoint
from calmix.runs.api import make_recipe
from calmix.runs.folder import Run, create
from calmix.runs.launch import Machine, train
from calmix.runs.recipe import NETWORK_OPTIONS, Recipe
from calmix.study.collection import Runs
from calmix.study.executors import Executor, ProcessExecutor, SerialExecutor
from calmix.study.plan import is_finished, run_plan
from calmix.study.tasks import Context


def sweep(
    grid: Mapping[str, Sequence[Any]],
    *,
    seeds: int = 1,
    jobs: int = 1,
    out: str | Path = "runs",
    corruptions: bool = False,
    data_root: Path | None = None,
    reporter: Reporter = ignore,
    **fields: Any,
) -> Runs:
    """Train and evaluate every combination of the grid's values for seeds 0, 1, ..., and return the runs.

    Keys of the grid and `fields` are recipe fields, options of the network, or what chooses a preset:
    dataset, ensemble, augment, scale. What is finished in `out` is not trained again. Of deep ensembles that
    differ in `members` alone the largest is trained; the others are its first members, bit for bit.

        calmix.sweep({"members": [1, 2, 4, 8]}, seeds=3, jobs=2, dataset="mnist", ensemble="deep")
    """
    at_least("jobs", jobs, 1)
    recipes = grid_recipes(grid, fields, seeds=seeds)
    types = CORRUPTIONS if corruptions else ()
    out = Path(out)
    context = Context(out, data_root, machine=Machine(accelerator="cpu" if jobs > 1 else "auto"))

    def executor() -> Executor:
        if jobs == 1:
            return SerialExecutor(context, reporter)
        return ProcessExecutor(context, reporter, jobs=jobs)

    errors = run_sweep(recipes, types, context, executor, reporter)
    if errors:
        raise InputError("; ".join(f"{name}: {error}" for name, error in errors.items()))
    return Runs(Run(out / recipe.name, recipe) for recipe in recipes)


def grid_recipes(
    grid: Mapping[str, Sequence[Any]], fields: Mapping[str, Any] | None = None, *, seeds: int = 1
) -> list[Recipe]:
    """The recipes of a grid, for each seed; an unknown field is refused with the nearest one.

    >>> [recipe.alpha for recipe in grid_recipes({"alpha": [0.2, 1.0]}, {"augment": "mixup"})]
    [0.2, 1.0]
    """
    at_least("seeds", seeds, 1)
    fields = dict(fields or {})
    names = (*(f.name for f in dataclasses.fields(Recipe)), *NETWORK_OPTIONS, "augment", "paper_code")
    for name in (*grid, *fields):
        one_of("recipe field", name, dict.fromkeys(names))
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Iterable) or not list(values):
            raise InputError(f"grid[{name!r}] must be a list of values, got {values!r}")
        if name in fields:
            raise InputError(f"{name} is in the grid and among the fields; give it once")
    if "seed" in grid:
        raise InputError("seeds=3 repeats every combination; leave seed out of the grid")
    first = int(fields.pop("seed", 0))
    recipes: dict[Recipe, None] = {}
    for values in itertools.product(*grid.values()):
        recipe = make_recipe(**{**fields, **dict(zip(grid, values, strict=True))})
        recipes |= dict.fromkeys(recipe.replace(seed=seed) for seed in range(first, first + seeds))
    return list(recipes)


def run_sweep(
    recipes: Sequence[Recipe],
    corruptions: tuple[str, ...],
    context: Context,
    make_executor: Any,
    reporter: Reporter,
) -> dict[str, str]:
    """Train and evaluate recipes; the errors of those that failed, by task.

    `make_executor()` gives a fresh executor: one for what is trained, one for what it answers.
    """
    larger = larger_ensembles(recipes)
    plan = {recipe: corruptions for recipe in recipes if recipe not in larger}
    errors = run_plan(plan, context.out, make_executor(), reporter)
    smaller: dict[Recipe, tuple[str, ...]] = {}
    for recipe, source in larger.items():
        run = Run(context.out / recipe.name, recipe)
        if not run.trained and not is_finished(run, corruptions):
            if not adopt_members(Run(context.out / source.name, source), recipe, context.out):
                reporter(Message(f"{source.name} kept no checkpoints: {recipe.name} is trained anew"))
            else:
                train(recipe, context.out, data_root=context.data_root, machine=context.machine)
        smaller[recipe] = corruptions
    return errors | (run_plan(smaller, context.out, make_executor(), reporter) if smaller else {})


def larger_ensembles(recipes: Sequence[Recipe]) -> dict[Recipe, Recipe]:
    """For each deep ensemble the largest one of which it is the first members, where there is one.

    Members that choose by the pool's gap depend on each other, and have none.
    """
    largest: dict[Recipe, Recipe] = {}
    for recipe in recipes:
        key = dataclasses.replace(recipe, members=1) if _independent(recipe) else recipe
        if key not in largest or largest[key].members < recipe.members:
            largest[key] = recipe
    pairs = {r: largest[dataclasses.replace(r, members=1)] for r in recipes if _independent(r)}
    return {recipe: source for recipe, source in pairs.items() if source.members > recipe.members}


def _independent(recipe: Recipe) -> bool:
    chooses_by_pool = recipe.needs_validation and recipe.gap_of == "pool"
    return recipe.ensemble == "deep" and not chooses_by_pool


def adopt_members(source: Run, recipe: Recipe, out: Path) -> bool:
    """Copy the trained first members of a larger deep ensemble; whether it has them."""
    folders = [source.stream_folder(k) for k in range(recipe.members)]
    states = [checkpoint.load(folder) for folder in folders]
    if any(state is None for state in states):
        return False
    run = create(recipe, out)
    for k, (folder, state) in enumerate(zip(folders, states, strict=True)):
        checkpoint.save(run.stream_folder(k), {**(state or {}), "recipe": recipe.name})
        if (folder / "metrics.jsonl").exists():
            shutil.copyfile(folder / "metrics.jsonl", run.stream_folder(k) / "metrics.jsonl")
    return True
