"""`calmix demo`"""

import itertools
import os
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from calmix.auditing import AuditReport, audit
from calmix.errors import InputError, at_least, printable
from calmix.progress import Display
from calmix.runs.folder import Run
from calmix.runs.launch import Machine
from calmix.runs.presets import preset
from calmix.runs.recipe import ENSEMBLES
from calmix.study.executors import ProcessExecutor
from calmix.study.plan import run_plan
from calmix.study.tasks import Context

AUGMENTS = ("none", "mixup", "camixup")


@dataclass(frozen=True)
class Demo:
    """Train twelve small models on embedded digits; see what Mixup does to ensembles, and what cures it.

    Example: calmix demo --out runs/demo

    The table shows what came out, whatever it is. Stopped and started again, it resumes.
    """

    out: Path = Path("runs/demo")
    """Folder for the runs, the figures and the page."""
    jobs: int = min(2, os.cpu_count() or 1)
    """Processes that train side by side."""
    seed: int = 0
    """Seed of every random draw."""
    scale: str = "laptop"
    """laptop, or smoke, which takes seconds and only shows that everything runs."""


def main(arguments: list[str]) -> None:
    from calmix.cli.report import write_report
    from calmix.report.story import mixup_story
    from calmix.study.results import read_results

    args = tyro.cli(Demo, args=arguments, prog="calmix demo")
    at_least("jobs", args.jobs, 1)
    methods = itertools.product(ENSEMBLES, AUGMENTS)
    recipes = [preset("digits", *method, scale=args.scale, seed=args.seed) for method in methods]
    with Display() as display:
        context = Context(args.out, machine=Machine(accelerator="cpu"))
        executor = ProcessExecutor(context, display, jobs=args.jobs)
        if errors := run_plan(dict.fromkeys(recipes, ()), args.out, executor, display):
            raise InputError("; ".join(f"{name}: {error}" for name, error in errors.items()))
        runs = [Run(args.out / recipe.name, recipe) for recipe in recipes]
        reports = {run: audit(run.predictions("test"), resamples=200) for run in runs}
        story = mixup_story(
            {(ENSEMBLES[r.recipe.ensemble].long, r.recipe.mixing): a for r, a in reports.items()}
        )
        page = args.out / "report.html"
        write_report(
            read_results(runs),
            page,
            figures=args.out / "figures",
            story=story,
            title="calmix demo",
            reporter=display,
        )
    console = Console()
    console.print(_table(reports))
    console.print(*story.sentences, sep="\n", highlight=False, markup=False)
    console.print(
        "Gap: accuracy minus confidence in points; above 0 is under-confident. "
        f"Digits, {recipes[0].epochs} epochs of {recipes[0].network}, seed {args.seed}."
    )
    console.print(
        printable(f"page: {page}\nfigures: {args.out / 'figures'}"),
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def _table(reports: dict[Run, AuditReport]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "", "accuracy", "ECE", "gap of\nmembers", "gap of\npool"):
        table.add_column(heading, no_wrap=True)
    table.add_column("verdict", min_width=len("under-confidence"))
    for run, report in reports.items():
        gaps = [member.gap.value for member in report.members]
        title = ENSEMBLES[run.recipe.ensemble].long if run.recipe.mixing == AUGMENTS[0] else ""
        shares = [f"{100 * report.metrics[name].value:.1f} %" for name in ("accuracy", "ece")]
        gaps_shown = [f"{100 * gap:+.1f}" for gap in (sum(gaps) / len(gaps), report.evidence.gap.value)]
        last = run.recipe.mixing == AUGMENTS[-1]
        table.add_row(title, run.recipe.augment, *shares, *gaps_shown, report.verdict, end_section=last)
    return table
