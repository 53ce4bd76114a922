"""From items to a plan of runs, and from finished runs to what the items show."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calmix import data
from calmix.corruptions import CORRUPTIONS
from calmix.errors import InputError, at_least
from calmix.paper.regime import planned_regime
from calmix.paper.sheet import Item, RenderedItem, Variant, render_item
from calmix.paper.toy import surface_evidence
from calmix.progress import Finished, Progress, Reporter, ignore
from calmix.runs.folder import Run
from calmix.runs.recipe import Recipe
from calmix.sources.catalogue import look_up
from calmix.study.evidence import is_current, keep_evidence
from calmix.study.plan import Plan, is_finished, locate_run
from calmix.study.results import Results, read_result, read_results

FOLDER, POINTS = "folder", "clusters"


@dataclass(frozen=True)
class ItemPlan:
    """Items with their runs, each once with the corruptions it is evaluated under.

    `changes` are recipe fields that all runs change. `skipped` are items whose data set is not on this
    machine, and why; `left_out` are data sets that some items would have used besides those they have, of
    which they have the runs in `finished` alone.
    """

    items: tuple[Item, ...]
    datasets: tuple[str, ...]
    scale: str
    seeds: int
    changes: dict[str, Any] = field(default_factory=dict)
    paper_code: bool = False
    train_on_validation: bool = False
    runs: dict[Recipe, tuple[str, ...]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)
    finished: set[Recipe] = field(default_factory=set)

    @property
    def dataset(self) -> str:
        """The data sets as one word, for names of files."""
        return "-".join(Path(name).name for name in self.datasets)

    def by_variant(self, item: Item, dataset: str) -> dict[Variant, list[Recipe]]:
        """The runs of an item on one of the plan's data sets, for each variant one for each seed."""
        if item.name in self.skipped:
            return {}
        by_variant: dict[Variant, list[Recipe]] = {}
        for variant in item.variants_of(dataset, self.scale):
            recipes = [self._recipe(item, variant, dataset, seed) for seed in range(self.seeds)]
            here = [r for r in recipes if r.dataset not in self.left_out or r in self.finished]
            by_variant |= {variant: here} if here else {}
        return by_variant

    def recipes(self, item: Item) -> list[Recipe]:
        """The runs of an item."""
        found: dict[Recipe, None] = {}
        for dataset in self.datasets:
            by_variant = self.by_variant(item, dataset)
            for seed in range(self.seeds):
                found |= dict.fromkeys(r for some in by_variant.values() for r in some if r.seed == seed)
        return list(found)

    def _recipe(self, item: Item, variant: Variant, dataset: str, seed: int) -> Recipe:
        recipe = variant.recipe(dataset, self.scale, seed, self.changes, paper_code=self.paper_code)
        if self.train_on_validation and not item.calibrates and not recipe.needs_validation:
            recipe = recipe.replace(train_on_validation=True)
        return recipe


def plan_items(
    items: Sequence[Item],
    *,
    dataset: str | Sequence[str],
    scale: str,
    seeds: int,
    changes: dict[str, Any] | None = None,
    paper_code: bool = False,
    train_on_validation: bool = False,
    data_root: Path | None = None,
    absent: bool = False,
    train: bool = True,
    runs: Sequence[Path] = (),
) -> ItemPlan:
    """Which runs the items need, on one data set or several side by side.

    A missing data set is an error, a missing image folder skips its item, and one of several that an item
    uses on its own is left out. `changes` are recipe fields that all runs change; `train_on_validation` is
    the paper's reading: methods that need no validation images train on them too. What is finished in the
    folders `runs` needs no data set. With `absent`, for a forecast or where nothing is trained, what is left
    needs none either, but for an image folder that is not the paper's. Without `train` what is finished of
    that is shown.
    """
    at_least("seeds", seeds, 1)
    datasets = (dataset,) if isinstance(dataset, str) else tuple(dict.fromkeys(dataset))
    plan = ItemPlan(tuple(items), datasets, scale, seeds, changes or {}, paper_code, train_on_validation)
    for item in items:
        for name in datasets:
            if item.corruptions and not item.dataset and name == POINTS:
                raise InputError(f"{item.name} shows images under corruption, and {name} are points")
            _check_data(plan, item, name, data_root, absent=absent, train=train, runs=runs)
        for recipe in plan.recipes(item):
            plan.runs[recipe] = CORRUPTIONS if item.corruptions else plan.runs.get(recipe, ())
    return plan


def _check_data(
    plan: ItemPlan,
    item: Item,
    dataset: str,
    data_root: Path | None,
    *,
    absent: bool,
    train: bool,
    runs: Sequence[Path],
) -> None:
    """Refuse, skip or leave out what is not here; data of the user's own is checked when it is read."""
    types = CORRUPTIONS if item.corruptions and train else ()
    for name in item.datasets_of(dataset, plan.scale):
        if name not in data.NAMES:
            continue
        entry = look_up(name, data_root)
        if entry.state == "present" or (absent and (name != FOLDER or plan.scale == "paper")):
            continue
        needed = [recipe for recipe in plan.recipes(item) if recipe.dataset == name]
        finished = {r for r in needed if any(is_finished(Run(f / r.name, r), types) for f in runs)}
        if len(finished) == len(needed) or (finished and not train):
            continue
        if item.dataset == FOLDER:
            # Goes into the written results: nothing of this machine.
            plan.skipped[item.name] = f"{name} is {entry.state}; `calmix data` says where its images go"
        elif item.variants is not None and name not in plan.datasets:
            plan.left_out.add(name)
            plan.finished.update(finished)
        else:
            raise InputError(f"{entry.name} is {entry.state}: {entry.problem or entry.remedy}")


def read_plan(runs: Plan, folders: Sequence[Path]) -> Results:
    """The results of planned runs, each from the first of `folders` that has it finished; where none has it
    under all corruptions, from the first that has it on the clean test set."""

    def locate(recipe: Recipe, types: Sequence[str]) -> Run:
        run = locate_run(recipe, types, folders)
        return run if is_finished(run, types) else locate_run(recipe, (), folders)

    return read_results(locate(recipe, types) for recipe, types in runs.items())


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


def render_plan(
    plan: ItemPlan, results: Results, *, reporter: Reporter = ignore
) -> dict[str, RenderedItem | str]:
    """What each item shows, or why it shows nothing."""
    rendered: dict[str, RenderedItem | str] = {}
    by_recipe = {result.recipe: result for result in results}
    for place, item in enumerate(plan.items):
        reporter(Progress("tables and figures", place, len(plan.items), item.name))
        if item.name in plan.skipped:
            rendered[item.name] = f"not run: {plan.skipped[item.name]}"
        elif item.variants is None:
            chosen = [by_recipe[recipe] for recipe in plan.recipes(item) if recipe in by_recipe]
            datasets = (item.dataset,) if item.dataset else plan.datasets
            regimes = [planned_regime(chosen, name, among=results) for name in datasets]
            rendered[item.name] = render_item(item, regimes)
        else:
            rendered[item.name] = _join(list(_render_variants(plan, item, by_recipe)))
    reporter(Finished("tables and figures", f"{len(plan.items)} items"))
    return rendered


def _render_variants(
    plan: ItemPlan, item: Item, by_recipe: dict[Recipe, Any]
) -> Iterator[RenderedItem | str]:
    """An item with variants, once for each data set; once in all where they have data sets of their own."""
    shown: list[dict[Variant, list[Recipe]]] = []
    for dataset in plan.datasets:
        wanted = plan.by_variant(item, dataset)
        if wanted in shown:
            continue
        shown.append(wanted)
        results = {
            variant: tuple(by_recipe[recipe] for recipe in recipes if recipe in by_recipe)
            for variant, recipes in wanted.items()
        }
        evaluated = {v: tuple(r for r in some if r.summary) for v, some in results.items()}
        yield render_item(item, (), {v: some for v, some in evaluated.items() if some})


def _join(parts: Sequence[RenderedItem | str]) -> RenderedItem | str:
    whole = [part for part in parts if isinstance(part, RenderedItem)]
    if not whole:
        return next((part for part in parts if isinstance(part, str)), "not run")
    sentences = dict.fromkeys(sentence for part in whole for sentence in part.sentences)
    by_dataset = {dataset: text for part in whole for dataset, text in part.by_dataset.items()}
    tables = tuple(table for part in whole for table in part.tables)
    figures = tuple(figure for part in whole for figure in part.figures)
    return RenderedItem(tuple(sentences), by_dataset, tables, figures)
