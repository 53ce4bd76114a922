"""The results of a plan: printed, and written as one Markdown file with its figures beside it."""

import datetime
import io
import json
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table as Grid

from calmix import files
from calmix.paper.claims import Judged, claims_table
from calmix.paper.items import PAPER, Item, Rendered, rendered
from calmix.paper.methods import ENSEMBLES
from calmix.paper.quantities import SECONDS
from calmix.paper.reproduce import Plan
from calmix.paper.study import Study, read_result
from calmix.paper.tables import Table
from calmix.recipe import Recipe
from calmix.report.style import styled
from calmix.run_folder import Run

WIDEST = 1000  # characters of a printed table
NETWORKS = {
    "small_resnet": "small ResNet, width {0.width}",
    "wide_resnet": "Wide ResNet {0.depth}-{0.width}",
    "resnet50": "ResNet-50",
    "mlp": "three-layer perceptron, {0.width} units",
}


def study_of(plan: Plan, item: Item, out: Path) -> Study:
    """The evaluated runs of an item."""
    runs = [Run(out / recipe.name, recipe) for recipe in plan.of(item)]
    return Study.of(runs, item.dataset or plan.dataset)


def draw(plan: Plan, item: Item, out: Path) -> Rendered | str:
    """An item's tables and figures, or why there are none."""
    if item.name in plan.skipped:
        return f"not run: {plan.skipped[item.name]}"
    return rendered(item, study_of(plan, item, out))


def show(plan: Plan, out: Path, console: Console) -> None:
    """Print every item's tables."""
    for item in plan.items:
        console.rule(f"{item.name}: {item.title}", align="left")
        made = draw(plan, item, out)
        if isinstance(made, str):
            console.print(made, soft_wrap=True)
            continue
        for table in made.tables:
            _print_whole(table.rich(), console)


def _print_whole(grid: Grid, console: Console) -> None:
    """No number is cut off: a terminal that is narrower breaks the lines."""
    needed = console.measure(grid, options=console.options.update(width=WIDEST)).maximum
    wide = Console(file=console.file, width=needed) if needed > console.width else console
    wide.print(grid)


def write(plan: Plan, out: Path, target: Path, *, command: str, failed: dict[str, str]) -> list[Path]:
    """Write `target` (Markdown) and its figures in `figures/` beside it; returns all files."""
    folder = target.parent / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    written = [target]
    lines = ["# Results", "", *_heading(plan, out, command), ""]
    for item in plan.items:
        lines += [f"## {item.name}: {item.title}", "", item.shows, ""]
        made = draw(plan, item, out)
        if isinstance(made, str):
            lines += [made, ""]
            continue
        lines += [line for table in made.tables for line in (table.markdown(), "")]
        for place, (caption, figure) in enumerate(made.figures, start=1):
            number = f"-{place}" if len(made.figures) > 1 else ""
            path = folder / f"{item.dataset or plan.dataset}-{item.name}{number}.svg"
            with files.replacing(path) as file:
                file.write(compact_svg(figure))
            written.append(path)
            lines += [f"![{caption}](figures/{path.name})", "", f"*{caption}.*", ""]
    if {*PAPER} <= {item.name for item in plan.items}:
        lines += _claims(plan, out)
    # Of an error only its last line: what stands above is of this machine.
    lines += [f"- failed: {name}: {why.strip().splitlines()[-1]}" for name, why in failed.items()]
    with files.replacing(target) as file:
        file.write(("\n".join(lines).rstrip() + "\n").encode())
    return written


def compact_svg(figure: Figure) -> bytes:
    """A figure as SVG at a fraction of matplotlib's size: letters as letters, points to a hundredth."""
    buffer = io.StringIO()
    with styled(), mpl.rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", buffer.getvalue(), flags=re.S)
    text = re.sub(r' id="[a-z0-9]+_\d+"', "", text)  # of groups, to which nothing refers
    text = re.sub(r'(?<= d=")[^"]*', lambda path: re.sub(r"(\.\d\d)\d+|\n", r"\1", path[0]), text)
    return re.sub(r">\s+<", "><", text).encode()


def _heading(plan: Plan, out: Path, command: str) -> list[str]:
    """The command, the day, and the regime: what was trained on how much, by whom, for how long."""
    lines = [f"Made by `{command}` on {datetime.date.today()} from the run folders that it trained."]
    recipes = list(plan.runs)
    for dataset in dict.fromkeys(recipe.dataset for recipe in recipes):
        held = {recipe: kinds for recipe, kinds in plan.runs.items() if recipe.dataset == dataset}
        lines += ["", f"**{dataset}**, {plan.scale} scale, {_count(plan.seeds, 'seed')}: {_regime(held)}."]
        if losses := _last_losses([Run(out / recipe.name, recipe) for recipe in held]):
            lines[-1] += f" {losses}"
    results = [read_result(Run(out / recipe.name, recipe)) for recipe in recipes]
    seconds = [SECONDS.of(result) or 0.0 for result in results if result]
    lines += ["", f"{_count(len(seconds), 'run')}, {sum(seconds) / 3600:.1f} hours of training in all."]
    lines += [
        "",
        "± is the standard deviation over seeds; the paper's numbers, of its full size, are inside where "
        "they lie within two of them. The gap is accuracy minus confidence in points: above 0 is "
        "under-confident. ECE is biased upwards where images are few, as under each corruption (c); DCE is "
        "not.",
    ]
    return lines


def _last_losses(runs: Sequence[Run]) -> str:
    """How well the networks fit: the mean loss of the last epoch, for each ensemble without augmentation."""
    found: dict[str, list[float]] = {}
    for run in runs:
        if run.recipe.augment == "none" and run.metrics.exists():
            lines = map(json.loads, run.metrics.read_text().splitlines())
            last = {line["member"]: line["loss"] for line in lines}
            found.setdefault(ENSEMBLES[run.recipe.ensemble], []).extend(last.values())
    losses = ", ".join(f"{name} {statistics.fmean(values):.2f}" for name, values in found.items())
    return f"Training loss in the last epoch, without augmentation: {losses}." if losses else ""


def _regime(planned: Mapping[Recipe, Sequence[str]]) -> str:
    recipes = list(planned)
    first = recipes[0]
    what = "points" if first.dataset == "clusters" else "images"
    network = NETWORKS[first.network].format(first)
    train = f"{first.train_size:,}" if first.train_size else "all"
    test = f"{first.test_size:,}" if first.test_size else "all"
    size = f"{first.corruption_size:,}" if first.corruption_size else "all"
    corrupted = f" ({size} of them under each corruption)" if any(planned.values()) else ""
    epochs = ", ".join(sorted({str(recipe.epochs) for recipe in recipes}))
    members = ", ".join(
        f"{ENSEMBLES[e]} {m}" for e, m in dict.fromkeys((r.ensemble, r.members) for r in recipes)
    )
    return (
        f"{train} training {what}, {first.validation_size:,} validation {what}, {test} test {what}"
        f"{corrupted}; {network}; {epochs} epochs; members: {members}"
    )


def _claims(plan: Plan, out: Path) -> list[str]:
    runs = [Run(out / recipe.name, recipe) for recipe in plan.runs]
    table = claims_as_table(claims_table(runs, plan.dataset))
    note = (
        "Intervals are 95 %: the test images resampled, the same for both sides of a comparison; with "
        "several seeds, the spread over them too. One seed leaves out what another training would change."
    )
    return ["## Claims", "", table.markdown(), "", note, ""]


def claims_as_table(judged: Sequence[Judged]) -> Table:
    rows = tuple((f"{c.number}. {c.claim}", c.verdict, "<br>".join(c.lines)) for c in judged)
    return Table("The paper's claims, judged on these runs", ("claim", "verdict", "evidence"), rows, words=3)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
