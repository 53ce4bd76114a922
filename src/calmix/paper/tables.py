"""Tables as plain rows, printed or written as Markdown, the paper's numbers beside the measured ones."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import rich.table

from calmix.paper.methods import ENSEMBLES, title
from calmix.paper.quantities import Published, Quantity
from calmix.paper.study import Method, Study

NOTHING = "-"


@dataclass(frozen=True)
class Table:
    """A caption, the names of the columns, and rows of cells; the first `words` columns are no numbers."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1

    def markdown(self) -> str:
        rule = ["---"] * self.words + ["---:"] * (len(self.columns) - self.words)
        lines = ["| " + " | ".join(cells) + " |" for cells in (self.columns, rule, *self.rows)]
        return "\n".join([f"*{self.caption}*", "", *lines])

    def rich(self) -> rich.table.Table:
        table = rich.table.Table(title=self.caption, title_justify="left")
        for place, name in enumerate(self.columns):
            table.add_column(name, justify="left" if place < self.words else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        return table


def comparison(
    caption: str, study: Study, methods: Sequence[Method], quantities: Sequence[Quantity]
) -> Table:
    """A row for each method, for each quantity a column, and one beside it where the paper has numbers."""
    published = {
        (method, q.title): q.published(study.dataset, *method) for method in methods for q in quantities
    }
    columns = ["method"]
    for q in quantities:
        columns += [q.title] + ["paper"] * any(published[method, q.title] for method in methods)
    rows = []
    for method in methods:
        row = [f"{ENSEMBLES[method[0]]}, {title(method[1])}"]
        for q in quantities:
            values = q.values(study, method)
            row.append(mean_and_spread(values, q.digits))
            if any(published[other, q.title] for other in methods):
                row.append(beside(published[method, q.title], values, q.digits))
        rows.append(tuple(row))
    return Table(caption, tuple(columns), tuple(rows))


def mean_and_spread(values: Sequence[float], digits: str = ".2f") -> str:
    """The mean over seeds, and their standard deviation where there are several.

    >>> mean_and_spread([1.0, 2.0, 3.0]), mean_and_spread([1.0]), mean_and_spread([])
    ('2.00 ± 1.00', '1.00', '-')
    """
    if not values:
        return NOTHING
    mean = format(statistics.fmean(values), digits)
    return f"{mean} ± {format(statistics.stdev(values), digits.lstrip('+'))}" if len(values) > 1 else mean


def beside(published: Published | None, values: Sequence[float], digits: str = ".2f") -> str:
    """The paper's number; with several seeds, whether it lies within two of their standard deviations.

    >>> beside((1.8, 0.2), [1.5, 1.9, 1.7]), beside((6.4, None), [1.5, 1.7]), beside((6.4, None), [1.5])
    ('1.80 ± 0.20, inside', '6.40, outside', '6.40')
    """
    if published is None:
        return NOTHING
    number, spread = published
    text = format(number, digits) + (f" ± {format(spread, digits)}" if spread is not None else "")
    if len(values) < 2:
        return text
    inside = abs(number - statistics.fmean(values)) <= 2 * statistics.stdev(values)
    return f"{text}, {'inside' if inside else 'outside'}"
