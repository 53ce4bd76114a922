"""`calmix table`"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from calmix import files
from calmix.errors import InputError, one_of
from calmix.progress import Display
from calmix.runs.folder import find_runs
from calmix.study.quantities import COLUMNS, QUANTITIES, Quantity
from calmix.study.results import Group, Results, read_results


@dataclass(frozen=True)
class TableOptions:
    """Print the numbers of many runs as one table: a row for each method, its mean and standard deviation
    over seeds.

    Example: calmix table runs --format latex --metrics accuracy ece nll

    In Markdown and LaTeX numbers are in per cent; in CSV and JSON they are fractions, with a column `_sd` for
    the standard deviation. JSON is {"version": 1, "rows": [...]}.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, or folders of runs or of evidence."""
    format: Literal["md", "csv", "latex", "json"] = "md"
    """Markdown, comma-separated values, a LaTeX tabular (booktabs), or JSON."""
    metrics: tuple[str, ...] = ()
    """Quantities by name: accuracy, ece, nll, gap, ca, cece, ...; by default those of `calmix report`."""
    each: bool = False
    """A row for each run instead of one for each method."""
    out: Path | None = None
    """File to write to instead of standard output."""


def main(arguments: list[str]) -> None:
    args = tyro.cli(TableOptions, args=arguments, prog="calmix table")
    metrics = [name for words in args.metrics for name in words.split(",") if name]
    for name in metrics:
        one_of("metric", name, QUANTITIES)
    results = read_results(find_runs(args.runs, reporter=Display()))
    evaluated = Results(result for result in results if result.summary)
    if not evaluated:
        raise InputError(f"none of {len(results)} runs is evaluated yet: run `calmix evaluate` on them first")
    wanted = [QUANTITIES[name] for name in metrics]
    text = table_text(evaluated, wanted, kind=args.format, each=args.each)
    if args.out is None:
        print(text, end="" if text.endswith("\n") else "\n")
        return
    with files.replacing(args.out) as file:
        file.write((text.rstrip("\n") + "\n").encode())


def table_text(results: Results, quantities: Sequence[Quantity], *, kind: str, each: bool = False) -> str:
    """The table of evaluated runs as text; without `quantities` those that the runs have."""
    from calmix.paper.numbers import published
    from calmix.report.exports import csv_text, group_rows, json_text
    from calmix.report.tables import comparison, runs_table

    quantities = quantities or [quantity for quantity in COLUMNS if quantity.values(results)]
    groups = results.groups()
    if kind in ("csv", "json"):
        if each:
            alone = [(group, result) for group in groups for result in group.results]
            groups = [Group(result.recipe, (result,), group.differs) for group, result in alone]
        rows = group_rows(groups, quantities)
        if each:
            rows = [{"seed": g.recipe.seed, **row} for g, row in zip(groups, rows, strict=True)]
        return csv_text(rows) if kind == "csv" else json_text(rows)
    if each:
        table = runs_table(results, quantities=quantities)
    else:
        first = ("data set", "ensemble", "augmentation", "runs")
        table = comparison("", groups, quantities, published=published, first=first)
    return table.markdown() if kind == "md" else table.latex()
