"""Tables for a page, a terminal and Markdown: means over seeds, the best marked."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import rich.table
import rich.text
from rich.console import Console

from calmix.errors import one_of
from calmix.metrics import Interval
from calmix.runs.recipe import ENSEMBLES
from calmix.study.quantities import COLUMNS, Quantity
from calmix.study.results import Group, Results

NOTHING = "-"
WIDEST_TABLE = 1000  # characters
Number: TypeAlias = tuple[float, float | None]
Published: TypeAlias = Callable[[Quantity, Group], Number | None]
"""A published number as a fraction, and its spread over seeds, where there is one."""


@dataclass(frozen=True)
class Cell:
    """Text of one line or more, and the `value` that a numeric column is sorted by.

    A `muted` cell is there for comparison with the one before it; `link` is an address on the same page.
    """

    text: str
    value: float | None = None
    best: bool = False
    tooltip: str = ""
    muted: bool = False
    link: str = ""


@dataclass(frozen=True)
class Table:
    """A caption, the names of the columns, and rows of cells; `tooltips` explain columns by name.

    >>> print(Table("Claims", ("claim", "ECE %"), ((Cell("a | b"), Cell("1.20", 0.012)),)).markdown())
    *Claims*
    <BLANKLINE>
    | claim | ECE % |
    | --- | ---: |
    | a \\| b | 1.20 |
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    tooltips: Mapping[str, str] = field(default_factory=dict)

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Whether a column holds a value."""
        return tuple(any(row[k].value is not None for row in self.rows) for k in range(len(self.columns)))

    def markdown(self) -> str:
        heads = [_markdown(Cell(name)) for name in self.columns]
        rule = ["---:" if numeric else "---" for numeric in self.numeric]
        rows = [heads, rule, *([_markdown(cell) for cell in row] for row in self.rows)]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([*([f"*{self.caption}*", ""] if self.caption else []), *lines])

    def latex(self) -> str:
        """A `tabular` with the rules of booktabs, the best in bold, the caption above as a comment.

        >>> row = (Cell("BE"), Cell("1.20 ± 0.1", 0.012, best=True))
        >>> print(Table("", ("method", "ECE %"), (row,)).latex())
        \\begin{tabular}{lr}
        \\toprule
        method & ECE \\% \\\\
        \\midrule
        BE & \\textbf{1.20 $\\pm$ 0.1} \\\\
        \\bottomrule
        \\end{tabular}
        """
        sides = "".join("r" if numeric else "l" for numeric in self.numeric)
        rows = [[_latex(cell.text, best=cell.best) for cell in row] for row in self.rows]
        lines = [f"% {self.caption}"] if self.caption else []
        lines += [rf"\begin{{tabular}}{{{sides}}}", r"\toprule"]
        lines += [" & ".join(map(_latex, self.columns)) + r" \\", r"\midrule"]
        lines += [" & ".join(row) + r" \\" for row in rows]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])

    def rich(self) -> rich.table.Table:
        table = rich.table.Table(title=rich.text.Text(self.caption), title_justify="left")
        for name, numeric in zip(self.columns, self.numeric, strict=True):
            side: Any = "right" if numeric else "left"
            table.add_column(rich.text.Text(name), justify=side, no_wrap=numeric, overflow="fold")
        for row in self.rows:
            styles = ["bold" if cell.best else "dim" if cell.muted else "" for cell in row]
            table.add_row(*(rich.text.Text(c.text, style=s) for c, s in zip(row, styles, strict=True)))
        return table


def print_table(table: Table, console: Console) -> None:
    """Print a table whole: a terminal that is narrower breaks the lines, and no number is cut off."""
    grid = table.rich()
    needed = console.measure(grid, options=console.options.update(width=WIDEST_TABLE)).maximum
    wide = Console(file=console.file, width=needed) if needed > console.width else console
    wide.print(grid)


LATEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
LATEX |= {letter: rf"\{letter}" for letter in "&%$#_{}"}


def _latex(text: str, *, best: bool = False) -> str:
    escaped = "".join(LATEX.get(letter, letter) for letter in text.replace("\n", "; "))
    return rf"\textbf{{{escaped}}}" if best else escaped


def _markdown(cell: Cell) -> str:
    text = cell.text.replace("<", "&lt;").replace("|", r"\|").replace("\n", "<br>")
    return f"**{text}**" if cell.best else text


FIRST: dict[str, Callable[[Group], str]] = {
    "method": lambda g: f"{ENSEMBLES[g.recipe.ensemble].short}, {g.recipe.augmentation.title}",
    "data set": lambda g: g.recipe.dataset,
    "ensemble": lambda g: ENSEMBLES[g.recipe.ensemble].long,
    "augmentation": lambda g: g.recipe.augmentation.title,
}


def comparison(
    caption: str,
    groups: Sequence[Group],
    quantities: Sequence[Quantity],
    *,
    published: Published | None = None,
    first: Sequence[str] = ("method",),
) -> Table:
    """A row for each group: mean ± standard deviation over seeds, the best of each data set marked.

    `first` are columns before the numbers: "method", or "data set", "ensemble" and "augmentation", and "runs"
    for their number. A column "recipe" says how recipes differ where something else than these tells them
    apart. Where `published` has a number for one of the groups, a column "paper" stands beside the quantity.
    """
    for name in first:
        one_of("first", name, (*FIRST, "runs"))
    table = _words(caption, groups, [name for name in first if name != "runs"])
    if "runs" in first:
        counts = [len(group.results) for group in groups]
        table = _with(table, "runs", [Cell(str(n), n) for n in counts], "seeds behind the mean")
    return _with_numbers(table, groups, quantities, published)


def runs_table(
    results: Results, *, published: Published | None = None, quantities: Sequence[Quantity] = COLUMNS
) -> Table:
    """A row for each run, whose seed leads to its recipe (`#run-0`, by its place in `results`); quantities
    that no run has are left out."""
    differs = {id(result): group.differs for group in results.groups() for result in group.results}
    alone = [Group(result.recipe, (result,), differs[id(result)]) for result in results]
    table = _words("", alone, ["data set", "ensemble", "augmentation"])
    seeds = [result.recipe.seed for result in results]
    cells = [Cell(str(seed), seed, link=f"#run-{place}") for place, seed in enumerate(seeds)]
    table = _with(table, "seed", cells, "leads to the recipe")
    return _with_numbers(table, alone, [q for q in quantities if q.values(results)], published)


def side_by_side(caption: str, tables: Mapping[str, Table]) -> Table:
    """One table of several whose first column names the rows: the other columns of each, under its name.

    >>> tables = {n: Table("", ("method", "ECE %"), ((Cell("BE"), Cell(n)),)) for n in ("cifar10", "mnist")}
    >>> side_by_side("", tables).columns
    ('method', 'cifar10: ECE %', 'mnist: ECE %')
    """
    firsts = [table.columns[0] for table in tables.values()]
    labels = list(dict.fromkeys(row[0].text for table in tables.values() for row in table.rows))
    columns, rows = [firsts[0] if firsts else ""], [[Cell(label)] for label in labels]
    tooltips: dict[str, str] = {}
    for name, table in tables.items():
        by_label = {row[0].text: row[1:] for row in table.rows}
        columns += [f"{name}: {column}" for column in table.columns[1:]]
        tooltips |= {f"{name}: {column}": text for column, text in table.tooltips.items()}
        for label, row in zip(labels, rows, strict=True):
            row += by_label.get(label, [Cell(NOTHING)] * (len(table.columns) - 1))
    return Table(caption, tuple(columns), tuple(map(tuple, rows)), tooltips)


def _words(caption: str, groups: Sequence[Group], names: Sequence[str]) -> Table:
    """The columns that name the groups."""
    table = Table(caption, (), ((),) * len(groups))
    for name in names:
        table = _with(table, name, [Cell(FIRST[name](group)) for group in groups])
    if any(group.differs for group in groups):
        tooltip = "in what it differs from others of the same augmentation"
        table = _with(table, "recipe", [Cell(group.differs) for group in groups], tooltip)
    return table


def _with(table: Table, name: str, cells: Sequence[Cell], tooltip: str = "") -> Table:
    """The table with a further column."""
    rows = tuple((*row, cell) for row, cell in zip(table.rows, cells, strict=True))
    tooltips = {**table.tooltips, **({name: tooltip} if tooltip else {})}
    return Table(table.caption, (*table.columns, name), rows, tooltips)


def _with_numbers(
    table: Table, groups: Sequence[Group], quantities: Sequence[Quantity], published: Published | None
) -> Table:
    """The table with a column for each quantity, and one beside it where something was published."""
    for quantity in quantities:
        values = [quantity.values(group.results) for group in groups]
        best = _best(quantity, groups, values)
        cells = [
            _of_some(mean_cell(quantity, some, best=marked), len(some), len(group.summaries))
            for some, marked, group in zip(values, best, groups, strict=True)
        ]
        table = _with(table, quantity.heading, cells, quantity.description)
        numbers = [published(quantity, group) if published else None for group in groups]
        if any(numbers):
            cells = [paper_cell(quantity, n, some) for n, some in zip(numbers, values, strict=True)]
            table = _with(table, "paper", cells, "the published number of the column before")
    return table


def _of_some(cell: Cell, count: int, runs: int) -> Cell:
    """The cell, which says so where fewer than all evaluated runs have the quantity."""
    return replace(cell, text=f"{cell.text} ({count} of {runs})") if 0 < count < runs else cell


def _best(quantity: Quantity, groups: Sequence[Group], values: Sequence[Sequence[float]]) -> list[bool]:
    """Whether a row is the best of its data set, where that has at least two rows with the quantity."""
    costs = [quantity.cost(statistics.fmean(some)) if some else math.nan for some in values]
    best = []
    for group, cost in zip(groups, costs, strict=True):
        of_dataset = [g.recipe.dataset == group.recipe.dataset for g in groups]
        rivals = [c for c, same in zip(costs, of_dataset, strict=True) if same and math.isfinite(c)]
        best.append(len(rivals) > 1 and cost == min(rivals))
    return best


def mean_cell(quantity: Quantity, values: Sequence[float], *, best: bool = False) -> Cell:
    """The mean over seeds, and their standard deviation where there are several.

    >>> from calmix.study.quantities import ECE
    >>> mean_cell(ECE, [0.01, 0.02, 0.03]).text, mean_cell(ECE, [0.01]).text, mean_cell(ECE, []).text
    ('2.00 ± 1.00', '1.00', '-')
    """
    if not values:
        return Cell(NOTHING)
    mean = statistics.fmean(values)
    text = quantity.text(mean)
    if len(values) > 1:
        text += f" ± {quantity.text(statistics.stdev(values), signed=False)}"
    return Cell(text, mean, best, "the best of this data set" if best else "")


def interval_text(interval: Interval, *, signed: bool = False, factor: float = 100.0, digits: int = 2) -> str:
    """A value with its interval, in per cent or points; where nothing tells the interval, the value alone.

    >>> interval_text(Interval(0.012, 0.008, 0.016), signed=True)
    '+1.20 [+0.80, +1.60]'
    """
    sign = "+" if signed else ""
    value, *ends = (f"{factor * x:{sign}.{digits}f}" for x in (interval.value, interval.low, interval.high))
    known = math.isfinite(interval.low) and math.isfinite(interval.high)
    return f"{value} [{', '.join(ends)}]" if known else value


def paper_cell(quantity: Quantity, number: Number | None, values: Sequence[float]) -> Cell:
    """The published number; with several seeds, whether it lies within two of their standard deviations.

    >>> from calmix.study.quantities import ECE
    >>> paper_cell(ECE, (0.018, 0.002), [0.015, 0.019, 0.017]).text
    '1.80 ± 0.20, inside'
    >>> paper_cell(ECE, (0.064, None), [0.015, 0.017]).text, paper_cell(ECE, (0.064, None), [0.015]).text
    ('6.40, outside', '6.40')
    """
    if number is None:
        return Cell(NOTHING, muted=True)
    value, spread = number
    text = quantity.text(value)
    if spread is not None:
        text += f" ± {quantity.text(spread, signed=False)}"
    if len(values) > 1:
        inside = abs(value - statistics.fmean(values)) <= 2 * statistics.stdev(values)
        text += ", inside" if inside else ", outside"
    return Cell(text, value, muted=True)
