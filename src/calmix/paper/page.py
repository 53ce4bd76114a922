"""Results of the paper's items as one Markdown file with its figures beside it, and on the terminal."""

import datetime
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from calmix import files
from calmix.paper.claims import IMAGENET, TOY, judge_claims
from calmix.paper.claims_figures import claims_figures
from calmix.paper.items import PAPER
from calmix.paper.judging import ClaimResult, Part
from calmix.paper.reproduce import ItemPlan
from calmix.paper.sheet import RenderedItem
from calmix.progress import Progress, Reporter, ignore
from calmix.report.figures import CaptionedFigure
from calmix.report.style import save_figure
from calmix.report.tables import Cell, Table, print_table
from calmix.runs.recipe import ENSEMBLES, Recipe
from calmix.study.quantities import SECONDS
from calmix.study.results import Result, Results

NETWORKS = {
    "small_resnet": "small ResNet, width {width}",
    "wide_resnet": "Wide ResNet {depth}-{width}",
    "resnet50": "ResNet-50",
    "mlp": "three-layer perceptron, {hidden} units",
}
CLAIMS_NOTE = (
    "Intervals are 95 %: the test images, the same for both sides of a comparison, and the spread over "
    "seeds. That is pooled over the methods of one ensemble, or over all methods of a regime where one "
    "ensemble has too few seeds, although it differs between methods too. The items beyond the paper pool "
    "the spread of their own methods, so the interval of one difference is not the same everywhere. SKCE, "
    "NLL and errors after a temperature or a joint calibrator have the spread over seeds alone. What a "
    "temperature changes (claim 13) has twice the noise of ECE by the test images; the noise of the fitted "
    "temperature is not in it. The interval of claim 7 is over seeds, for these classes; with one seed it is "
    "over classes. All seeds train on the same images, whose choice is in no interval. Intervals are not "
    "corrected for their number: by chance alone at least one in twenty misses its value. Where no method of "
    "a regime has two seeds, an interval covers the test images alone and is too narrow; with one seed a "
    "verdict is provisional."
)


def print_items(plan: ItemPlan, rendered: Mapping[str, RenderedItem | str], console: Console) -> None:
    """Print every item's tables."""
    for item in plan.items:
        console.rule(f"{item.name}: {item.title}", align="left")
        shown = rendered[item.name]
        if isinstance(shown, str):
            console.print(shown, soft_wrap=True, markup=False)
            continue
        for line in shown.lines:
            console.print(line, soft_wrap=True, markup=False, highlight=False)
        for table in shown.tables:
            print_table(table, console)


def write_items(
    plan: ItemPlan,
    results: Results,
    rendered: Mapping[str, RenderedItem | str],
    target: Path,
    *,
    command: str,
    errors: Mapping[str, str],
    formats: Sequence[str] = ("svg",),
    reporter: Reporter = ignore,
) -> list[Path]:
    """Write `target` (Markdown) and its figures in `figures/` beside it, in each of `formats`; returns all
    files."""
    folder = target.parent / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    written = [target]
    of_runs = dict.fromkeys(recipe.dataset for recipe in plan.runs)
    names = [name for name in plan.datasets if name in of_runs] or list(of_runs) or plan.datasets
    lines = [f"# Results: {', '.join(names)}", "", *_heading(plan, results, command), ""]
    for place, item in enumerate(plan.items):
        lines += [f"## {item.name}: {item.title}", "", item.shows, ""]
        shown = rendered[item.name]
        if isinstance(shown, str):
            lines += [shown, ""]
            continue
        lines += [*shown.paragraphs, ""] if shown.lines else []
        lines += [line for table in shown.tables for line in (table.markdown(), "")]
        for captioned in shown.figures:
            reporter(Progress("writing", place, len(plan.items), captioned.name))
            lines += _write_figure(captioned, folder / captioned.name, formats, written)
    if {*PAPER} <= {item.name for item in plan.items}:
        reporter(Progress("writing", len(plan.items) - 1, len(plan.items), "claims"))
        # Some items read runs of further data sets, which have pages of their own.
        judged = judge_claims([r for r in results if r.recipe.dataset in {*plan.datasets, TOY, IMAGENET}])
        lines += ["## Claims", "", claims_table(judged).markdown(), "", CLAIMS_NOTE, ""]
        for captioned in claims_figures(judged):
            stem = folder / f"{plan.dataset}-{captioned.name}"
            lines += _write_figure(captioned, stem, formats, written)
    # Of an error only its last line: what stands above is of this machine.
    lines += [f"- failed: {name}: {error.strip().splitlines()[-1]}" for name, error in errors.items()]
    with files.replacing(target) as file:
        file.write(("\n".join(lines).rstrip() + "\n").encode())
    return written


def _write_figure(
    captioned: CaptionedFigure, stem: Path, formats: Sequence[str], written: list[Path]
) -> list[str]:
    """Write a figure in every format; the lines that show the first of them that a page can."""
    for ending in formats:
        written.append(stem.parent / f"{stem.name}.{ending}")
        save_figure(captioned.figure, written[-1])
    shown = next((ending for ending in ("svg", "png") if ending in formats), formats[0])
    name = f"{stem.name}.{shown}"
    return [f"![{captioned.alt}](figures/{name})", "", f"*{captioned.caption}.*", ""]


def _heading(plan: ItemPlan, results: Results, command: str) -> list[str]:
    """The command, the day, and the regime: what was trained on how many images, for how long."""
    lines = [f"Made by `{command}` on {datetime.date.today()}."]
    for dataset in dict.fromkeys(recipe.dataset for recipe in plan.runs):
        found = results.where(dataset=dataset)
        done = {r.recipe: bool(r.summary.corrupted_scores()) for r in found if r.summary}
        planned = {
            recipe: types if done[recipe] else () for recipe, types in plan.runs.items() if recipe in done
        }
        seeds = len({recipe.seed for recipe in planned})
        if not seeds:
            lines += ["", f"**{dataset}**, {plan.scale} scale: not run."]
            continue
        most = f"up to {_count(seeds, 'seed')}" if seeds > 1 else _count(seeds, "seed")
        lines += ["", f"**{dataset}**, {plan.scale} scale, {most}: {_regime(planned)}."]
        if losses := _last_losses([result for result in found if result.summary]):
            lines[-1] += f" {losses}"
        lines[-1] += " Intervals are of the test images alone, and too narrow." if seeds == 1 else ""
    seconds = SECONDS.values(result for result in results if result.summary)
    lines += ["", f"{_count(len(seconds), 'run')}, {sum(seconds) / 3600:.1f} hours of training in all."]
    several = any(recipe.seed for recipe in plan.runs)
    spread = "± is the standard deviation over seeds. " if several else ""
    lines += [
        "",
        f"{spread}The gap is accuracy minus confidence in points: above 0 is under-confident. ECE is biased "
        "upwards where images are few: of 500 images of one corruption (c) it is several per cent also for "
        "a calibrated pool. DCE corrects for that; it is a root mean square over bins, so it is comparable "
        "with itself alone. Bold is the best mean of a column, beyond noise or not.",
    ]
    return lines


def _last_losses(results: Sequence[Result]) -> str:
    """How well the networks fit: the mean loss of the last epoch, for each ensemble without augmentation."""
    losses: dict[str, list[float]] = {}
    for result in results:
        if result.recipe.augment == "none":
            losses.setdefault(ENSEMBLES[result.recipe.ensemble].short, []).extend(result.last_losses)
    known = {name: values for name, values in losses.items() if values}
    text = ", ".join(f"{name} {statistics.fmean(values):.2f}" for name, values in known.items())
    return f"Training loss in the last epoch, without augmentation: {text}." if text else ""


def _regime(planned: Mapping[Recipe, Sequence[str]]) -> str:
    recipes = list(planned)
    first = recipes[0]
    what = "points" if first.dataset == "clusters" else "images"
    options = {"depth": 28, "width": 16, "hidden": 64} | first.network_options
    network = NETWORKS.get(first.network, first.network).format_map(options)
    train, validation, test, corrupted = (
        _sizes([getattr(recipe, f"{part}_size") for recipe in recipes])
        for part in ("train", "validation", "test", "corruption")
    )
    under = f" ({corrupted} of them under each corruption)" if any(planned.values()) else ""
    epochs = ", ".join(sorted({str(recipe.epochs) for recipe in recipes}))
    members = dict.fromkeys((recipe.ensemble, recipe.members) for recipe in recipes)
    sizes = ", ".join(f"{ENSEMBLES[ensemble].short} {count}" for ensemble, count in members)
    return (
        f"{train} training {what}, {validation} validation {what}, {test} test {what}"
        f"{under}; {network}; {epochs} epochs; members: {sizes}"
    )


def _sizes(sizes: Sequence[int | None]) -> str:
    """
    >>> _sizes([500, 250, 4000]), _sizes([None, None]), _sizes([100, None])
    ('250 to 4,000', 'all', '100 to all')
    """
    ordered = sorted({math.inf if size is None else size for size in sizes})
    return " to ".join("all" if s == math.inf else f"{s:,}" for s in dict.fromkeys((ordered[0], ordered[-1])))


def claims_table(judged: Sequence[ClaimResult]) -> Table:
    """A row for each claim: how many parts came out how, and every part."""
    texts = ((f"{claim.id}. {claim.text}", claim.line, "\n".join(claim_lines(claim))) for claim in judged)
    rows = tuple(tuple(map(Cell, row)) for row in texts)
    return Table("The paper's claims, judged on these runs", ("claim", "parts", "comparisons"), rows)


def part_text(part: Part) -> str:
    """
    >>> part_text(Part("deep", "mnist", "clean", "ECE: Mixup - none", 0.07, (0.06, 0.08), None, 5, "shown"))
    'DE, mnist: ECE: Mixup - none +7.00 [+6.00, +8.00], 5 seeds: shown'

    With the margin up to which it counts as claimed, and where nothing tells an interval, as for SKCE with
    one seed:

    >>> part = Part("deep", "mnist", "clean", "Acc", -0.001, (-0.002, 0.0), None, 5, "shown", limit=-0.0022)
    >>> part_text(part)
    'DE, mnist: Acc -0.10 [-0.20, +0.00] (margin -0.22), 5 seeds: shown'
    >>> unknown = (float("-inf"), float("inf"))
    >>> where = "deep", "mnist", "clean", "SKCE: Mixup"
    >>> part_text(Part(*where, 0.01, unknown, None, 1, "consistent", True, unit="SKCE"))
    'DE, mnist: SKCE: Mixup +0.01 (no interval), 1 seed: consistent (provisional)'
    """
    where = f"{ENSEMBLES[part.ensemble].short}, {part.dataset}: {part.comparison}"
    if part.estimate is None or part.interval is None:
        return f"{where}: not run ({part.missing})"
    factor, digits = (100, ".2f") if part.in_points else (1, ".3g")
    numbers, low, high = (f"{factor * number:+{digits}}" for number in (part.estimate, *part.interval))
    ends = f"[{low}, {high}]" if all(map(math.isfinite, part.interval)) else "(no interval)"
    paper = "" if part.paper is None else f", paper {factor * part.paper:+{digits}}"
    margin = f" (margin {factor * part.limit:+{digits}})" if part.limit else ""
    provisional = " (provisional)" if part.provisional else ""
    return (
        f"{where} {numbers} {ends}{margin}{paper}, {_count(part.seeds, 'seed')}: {part.verdict}{provisional}"
    )


def claim_lines(claim: ClaimResult) -> list[str]:
    """A line for each part and size of a claim."""
    return [part_text(part) for part in claim.parts] + [
        f"size: {ENSEMBLES[size.ensemble].short}, {size.dataset}: {size.text} {size.value:.2f}"
        + ("" if size.paper is None else f", paper {size.paper:.2f}")
        for size in claim.sizes
    ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
