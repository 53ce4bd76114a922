"""`calmix demo`"""

import os
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from calmix.audit import audit
from calmix.errors import InputError
from calmix.launch import Machine
from calmix.paper.reproduce import Plan, carry_out
from calmix.paper.tasks import Place
from calmix.paper.workers import Workers
from calmix.predictions import load_predictions
from calmix.presets import preset
from calmix.progress import Display
from calmix.recipe import ENSEMBLES, Recipe
from calmix.report.page import write_page
from calmix.run_folder import Run

AUGMENTS = ("none", "mixup", "camixup")
TITLES = {"single": "one network", "batch": "BatchEnsemble", "mc": "MC-dropout", "deep": "deep ensemble"}


@dataclass(frozen=True)
class Demo:
    """Train twelve small models on embedded digits; see what Mixup does to ensembles, and what cures it.

    Example: calmix demo --out runs/demo

    Whatever comes out is what is printed. Stopped and started again, it goes on where it was.
    """

    out: Path = Path("runs/demo")
    """Folder for the runs, the figures and the page."""
    jobs: int = min(2, os.cpu_count() or 1)
    """Processes that train side by side."""
    seed: int = 0
    """Of every random draw."""
    scale: str = "laptop"
    """laptop, or smoke for a look at the plumbing in seconds."""


def main(arguments: list[str]) -> None:
    chosen = tyro.cli(Demo, args=arguments, prog="calmix demo")
    if chosen.jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {chosen.jobs}")
    recipes = [
        preset("digits", ensemble, augment, scale=chosen.scale, seed=chosen.seed)
        for ensemble in ENSEMBLES
        for augment in AUGMENTS
    ]
    plan = Plan((), "digits", chosen.scale, 1, dict.fromkeys(recipes, ()))
    with Display() as display:
        hands = Workers(Place(chosen.out, machine=Machine(accelerator="cpu")), display, jobs=chosen.jobs)
        if failed := carry_out(plan, chosen.out, hands, display):
            raise InputError("; ".join(f"{name}: {why}" for name, why in failed.items()))
        runs = [Run(chosen.out / recipe.name, recipe) for recipe in recipes]
        table = _table(runs)
        page = chosen.out / "report.html"
        write_page(runs, page, figures=chosen.out / "figures")
    console = Console()
    console.print(table)
    console.print(_legend(recipes[0]))
    console.print(f"page: {page}\nfigures: {chosen.out / 'figures'}", soft_wrap=True, highlight=False)


def _table(runs: list[Run]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("", "", "accuracy", "ECE", "gap of\nmembers", "gap of\npool"):
        table.add_column(head, no_wrap=True)
    table.add_column("verdict", min_width=len("under-confidence"))
    for run in runs:
        report = audit(load_predictions(run.predictions("test")), resamples=200)
        numbers = report.numbers()
        members = [member["gap"] for member in numbers["members"]]
        first = run.recipe.mixing == AUGMENTS[0]
        table.add_row(
            TITLES[run.recipe.ensemble] if first else "",
            run.recipe.augment,
            f"{100 * numbers['accuracy']:.1f} %",
            f"{100 * numbers['ece']:.1f} %",
            f"{100 * sum(members) / len(members):+.1f}",
            f"{100 * numbers['pool']['gap']:+.1f}",
            report.verdict,
            end_section=run.recipe.mixing == AUGMENTS[-1],
        )
    return table


def _legend(recipe: Recipe) -> str:
    return (
        "Gap: accuracy minus confidence in points; above 0 is under-confident. "
        f"Digits, {recipe.epochs} epochs of {recipe.network}, seed {recipe.seed}."
    )
