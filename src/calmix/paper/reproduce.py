"""From items to a plan of runs, and from finished runs to what the items show."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calmix.corruptions import CORRUPTIONS
from calmix.data.catalogue import look_up
from calmix.errors import InputError, at_least
from calmix.paper.items import Item, RenderedItem, render_item
from calmix.paper.regime import Regime, main_regime
from calmix.paper.toy import surface_evidence
from calmix.runs.folder import Run
from calmix.runs.recipe import Recipe
from calmix.study.evidence import is_current, keep_evidence
from calmix.study.plan import Plan, is_finished, locate_run
from calmix.study.results import Results, read_result, read_results

FOLDER, POINTS = "folder", "clusters"


@dataclass(frozen=True)
class ItemPlan:
    """Items with their runs, each once with the corruptions it is evaluated under; `skipped` are items whose
    data set is not on this machine, and why."""

    items: tuple[Item, ...]
    dataset: str
    scale: str
    seeds: int
    changes: dict[str, Any] = field(default_factory=dict)
    runs: dict[Recipe, tuple[str, ...]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def recipes(self, item: Item) -> list[Recipe]:
        """The runs of an item."""
        if item.name in self.skipped:
            return []
        recipes = item.recipes(self.dataset, self.scale, self.seeds)
        return [recipe.replace(**self.changes) for recipe in recipes]


def plan_items(
    items: Sequence[Item],
    *,
    dataset: str,
    scale: str,
    seeds: int,
    changes: dict[str, Any] | None = None,
    data_root: Path | None = None,
    absent: bool = False,
) -> ItemPlan:
    """Which runs the items need. A missing data set is an error, a missing image folder skips its item.

    `changes` are recipe fields that all runs change. With `absent`, for a forecast, the paper's data sets
    need not be on this machine: of image folders, ImageNet at paper scale alone.
    """
    at_least("seeds", seeds, 1)
    plan = ItemPlan(tuple(items), dataset, scale, seeds, changes or {})
    for item in items:
        if item.corruptions and not item.dataset and dataset == POINTS:
            raise InputError(f"{item.name} shows images under corruption, and {dataset} are points")
        entry = look_up(item.dataset or dataset, data_root)
        known = absent and (item.dataset != FOLDER or scale == "paper")
        if entry.state != "present" and not known:
            if item.dataset != FOLDER:
                reason = entry.problem or entry.remedy
                raise InputError(f"{entry.name} is {entry.state}: {reason}")
            # Goes into the written results: nothing of this machine.
            plan.skipped[item.name] = f"{entry.name} is {entry.state}; `calmix data` says where its images go"
        for recipe in plan.recipes(item):
            plan.runs[recipe] = CORRUPTIONS if item.corruptions else plan.runs.get(recipe, ())
    return plan


def read_plan(runs: Plan, folders: Sequence[Path]) -> Results:
    """The results of planned runs, each from the first of `folders` that has it finished."""
    return read_results(locate_run(recipe, types, folders) for recipe, types in runs.items())


def keep_result(run: Run, folder: Path) -> None:
    """Write the evidence of a run that has just been evaluated."""
    extra = surface_evidence(run) if run.recipe.dataset == POINTS else None
    keep_evidence(read_result(run), folder, extra)


def keep_finished(runs: Plan, out: Path, folder: Path) -> None:
    """Write the evidence of runs that finished before it was asked for, or whose evidence lacks what is kept
    today."""
    for recipe, types in runs.items():
        run, evidence = Run(out / recipe.name, recipe), Run(folder / recipe.name, recipe)
        has_all = is_finished(evidence, types) and is_current(evidence.folder)
        if not has_all and run.trained and is_finished(run, types):
            keep_result(run, folder)


def render_plan(plan: ItemPlan, results: Results) -> dict[str, RenderedItem | str]:
    """What each item shows, or why it shows nothing."""
    rendered: dict[str, RenderedItem | str] = {}
    for item in plan.items:
        if item.name in plan.skipped:
            rendered[item.name] = f"not run: {plan.skipped[item.name]}"
            continue
        wanted = set(plan.recipes(item))
        chosen = [result for result in results if result.recipe in wanted]
        regime: Regime = main_regime(chosen, item.dataset or plan.dataset)
        rendered[item.name] = render_item(item, regime)
    return rendered
