"""Tables of runs: sortable, the best of each data set marked, the paper's number beside the measured one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calmix.report.markup import Html, join, tag
from calmix.report.paper_numbers import paper_numbers, paper_spread
from calmix.report.results import Key, Result, by_key


@dataclass(frozen=True)
class Column:
    """A number of a run; best where `cost` is least. `paper` is the field of the paper's number, if any."""

    title: str
    tip: str
    value: Callable[[Result], float | None]
    cost: Callable[[float], float] = abs
    paper: str = ""
    digits: int = 2


@dataclass(frozen=True)
class Row:
    """A line of a table: a run, or several that differ in their seed."""

    key: Key
    first: Html
    numbers: tuple[list[float], ...]  # for each column, of each run


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _less(value: float) -> float:
    return -value


COLUMNS = (
    Column("Acc %", "test accuracy", lambda r: _percent(r.clean("accuracy")), _less, "accuracy"),
    Column("ECE %", "expected calibration error", lambda r: _percent(r.clean("ece")), abs, "ece"),
    Column("cAcc %", "accuracy on the corrupted test sets", lambda r: r.other("cA"), _less, "ca"),
    Column("cECE %", "ECE on the corrupted test sets", lambda r: r.other("cECE"), abs, "cece"),
    Column("DCE %", "debiased calibration error", lambda r: _percent(r.clean("dce"))),
    Column("NLL", "negative log-likelihood", lambda r: r.clean("nll"), digits=3),
    Column("gap", "accuracy - confidence, above 0 under-confident", lambda r: _percent(r.clean("gap"))),
    Column("members' ECE %", "mean of the members alone", lambda r: _percent(r.members("ece"))),
    Column("members' gap", "mean of the members alone", lambda r: _percent(r.members("gap"))),
    Column("ECE % with T", "with a temperature", lambda r: _percent(r.other("temperature", "ece"))),
)


def runs_table(results: Sequence[Result]) -> Html:
    """A line for each run, which leads to its recipe."""
    rows = []
    for i, result in enumerate(results):
        seed = tag("a", {"href": f"#run-{i}"}, str(result.recipe.seed))
        rows.append(Row(result.key, seed, _numbers([result])))
    return _table(rows, "seed")


def means_table(results: Sequence[Result]) -> Html:
    """A line for each augmentation: mean and spread over its runs. Nothing where each has a single run."""
    groups = by_key(results)
    if all(len(held) == 1 for held in groups.values()):
        return Html("")
    return _table([Row(key, join(str(len(held))), _numbers(held)) for key, held in groups.items()], "runs")


def _numbers(results: Sequence[Result]) -> tuple[list[float], ...]:
    return tuple([v for result in results if (v := column.value(result)) is not None] for column in COLUMNS)


def _table(rows: Sequence[Row], first: str) -> Html:
    shown = [i for i in range(len(COLUMNS)) if any(row.numbers[i] for row in rows)]
    heads = [("data set", ""), ("ensemble", ""), ("augmentation", ""), (first, "")]
    heads += [(COLUMNS[i].title, COLUMNS[i].tip) for i in shown]
    buttons = [tag("button", {"type": "button", "title": tip}, name) for name, tip in heads]
    head = tag("thead", None, tag("tr", None, *(tag("th", {"scope": "col"}, button) for button in buttons)))
    best = {i: _best(rows, i) for i in shown}
    lines = []
    for line, row in enumerate(rows):
        words = [tag("td", None, word) for word in (*row.key, row.first)]
        numbers = [_cell(row, i, best=line in best[i]) for i in shown]
        lines.append(tag("tr", None, *words, *numbers))
    table = tag("table", {"class": "sortable"}, head, tag("tbody", None, *lines))
    return tag("div", {"class": "scroll", "tabindex": "0"}, table)


def _best(rows: Sequence[Row], i: int) -> set[int]:
    """The best line of each data set that has at least two lines with this number."""
    found = set()
    for dataset in {row.key[0] for row in rows}:
        known = [line for line, row in enumerate(rows) if row.key[0] == dataset and row.numbers[i]]
        if len(known) > 1:
            found.add(min(known, key=lambda line: COLUMNS[i].cost(float(np.mean(rows[line].numbers[i])))))
    return found


def _cell(row: Row, i: int, *, best: bool) -> Html:
    column, values = COLUMNS[i], row.numbers[i]
    paper = _paper(row.key, column)
    if not values:
        return tag("td", {"class": "number", "data-value": ""}, "-", paper)
    mean = float(np.mean(values))
    spread = Html("")
    if len(values) > 1:
        spread = tag("small", None, f" ± {np.std(values, ddof=1):.{column.digits}f}")
    attributes = {"class": "number best" if best else "number", "data-value": repr(mean)}
    if best:
        attributes["title"] = "the best of this data set"
    return tag("td", attributes, f"{mean:.{column.digits}f}", spread, paper)


def _paper(key: Key, column: Column) -> Html:
    numbers, spread = paper_numbers(*key), paper_spread(*key)
    value = getattr(numbers, column.paper) if numbers and column.paper else None
    if value is None:
        return Html("")
    around = f" ± {getattr(spread, column.paper):g}" if spread else ""
    return tag("span", {"class": "paper"}, f" paper {value:g}{around}")
