"""Tables of an audit's page; rows of classes and groups carry a small plot of their interval."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from calmix.auditing.groups import MIN_EXAMPLES, TRUE, GroupGap
from calmix.auditing.measures import MEASURES, Estimate
from calmix.auditing.report import AuditReport
from calmix.auditing.text import percent, show, show_interval, show_p
from calmix.metrics import Interval
from calmix.report.tables import Cell, Table

MANY = 12  # rows of a table that has a search field
OF_ENSEMBLES = ("data_uncertainty", "knowledge_uncertainty")  # of one model these say nothing


@dataclass(frozen=True)
class PlotCell(Cell):
    """A cell that is drawn: an interval and its value on a scale from -`limit` to `limit`."""

    low: float = 0.0
    high: float = 0.0
    limit: float = 1.0
    kind: str = ""

    def place(self, value: float) -> float:
        """Where a value lies on a scale of 0 to 100; outside, at its end."""
        return round(50 + 50 * max(-1.0, min(1.0, value / self.limit)), 1)


@dataclass(frozen=True)
class Section:
    """A heading with a table under it. `search` names what is searched, where there are many rows."""

    name: str
    heading: str
    table: Table
    search: str = ""
    note: str = ""


def audit_tables(report: AuditReport) -> dict[str, list[Section]]:
    """Sections by their place on the page: remedies, metrics, members, classes and groups."""
    together = (
        f"Intervals of all rows of both tables of classes hold at once with {100 * report.level:g} %. "
        f"Fewer than {MIN_EXAMPLES} examples are too few to judge. Those furthest off for sure come first."
    )
    sections = {
        "remedies": [Section("remedies", "All remedies", _remedies(report))],
        "metrics": [Section("metrics", "Metrics", _metrics(report))],
        "members": [],
        "classes": [
            gap_section("classes", "By predicted class", "class", report.classes, together),
            _rates(report, together),
        ],
        "groups": list(_groups(report)),
    }
    if len(report.members) > 1:
        sections["members"] = [Section("members", "Members", _members(report), _search(report.members))]
    return sections


def _search(rows: Sequence[object], what: str = "members") -> str:
    return what if len(rows) > MANY else ""


def _metrics(report: AuditReport) -> Table:
    names = [n for n in report.metrics if n in MEASURES]
    if len(report.members) == 1:
        names = [n for n in names if n not in OF_ENSEMBLES]
    rows = tuple(_metric(name, report.metrics[name]) for name in names)
    level = f"{100 * report.level:g} % interval"
    heads = ("metric", "value", level, "by chance: mean", "by chance: 95 %", "p", "what it is")
    caption = (
        "Of the pool. Errors of calibration are never 0 on finite data: beside each stands what a calibrated "
        "model would show by chance."
    )
    return Table(caption, heads, rows)


def _metric(name: str, estimate: Estimate) -> tuple[Cell, ...]:
    measure, interval = MEASURES[name], estimate.interval
    nulls = [
        Cell("") if value is None else Cell(_null(name, value), value)
        for value in (estimate.null_mean, estimate.null_95)
    ]
    p_value = estimate.p_value
    return (
        Cell(measure.title),
        Cell(show(name, estimate.value), estimate.value),
        Cell("" if interval is None else show_interval(name, interval)),
        *nulls,
        Cell("") if p_value is None else Cell(show_p(p_value).removeprefix("= "), p_value),
        Cell(measure.explanation),
    )


def _null(name: str, value: float) -> str:
    return f"{value:.2g}" if MEASURES[name].unit == "number" else show(name, value)


def _members(report: AuditReport) -> Table:
    limit = interval_limit([member.gap for member in report.members])
    rows = tuple(
        (Cell(str(k), k), _percent(member.accuracy), _percent(member.ece), *_gap_cells(member.gap, limit))
        for k, member in enumerate(report.members)
    )
    heads = ("member", "accuracy", "ECE", "gap", f"{100 * report.level:g} % interval", "plot")
    return Table(f"Each member alone. {_scale(limit)}", heads, rows)


def gap_section(name: str, heading: str, what: str, rows: Sequence[GroupGap], note: str) -> Section:
    """Accuracy - confidence of each row."""
    limit = interval_limit([row.gap for row in rows if row.direction != "too few"])
    cells = tuple(
        (
            Cell(row.name),
            Cell(f"{row.examples:,}", row.examples),
            _percent(row.accuracy),
            _percent(row.confidence),
            *_gap_cells(row.gap, limit, row.direction),
            Cell(row.direction),
        )
        for row in rows
    )
    heads = (what, "examples", "accuracy", "confidence", "gap", "interval", "plot", "direction")
    plural = {"class": "classes"}.get(what, what)
    return Section(
        name,
        heading,
        Table(f"Accuracy minus confidence. {_scale(limit)}", heads, cells),
        _search(rows, plural),
        note,
    )


def _rates(report: AuditReport, note: str) -> Section:
    rows = report.class_rates
    limit = interval_limit([row.difference for row in rows])
    cells = tuple(
        (
            Cell(row.name),
            Cell(f"{row.examples:,}", row.examples),
            _percent(row.mean_probability),
            _percent(row.rate),
            *_gap_cells(row.difference, limit, row.direction),
            Cell(row.direction),
        )
        for row in rows
    )
    heads = ("class", "examples", "mean P(k)", "rate", "difference", "interval", "plot", "direction")
    table = Table(f"Mean probability minus rate, over all examples. {_scale(limit)}", heads, cells)
    return Section("rates", "By class-wise probability", table, _search(rows, "classes"), note)


def _groups(report: AuditReport) -> Iterable[Section]:
    note = (
        f"Intervals of all {len(report.groups):,} groups hold at once with {100 * report.level:g} % "
        "(Bonferroni)."
    )
    for place, by in enumerate(report.by[1:]):
        rows = [row for row in report.groups if row.by == by]
        if by == TRUE:
            heading = "By true class (CAMixup's rule)"
            text = (
                "The rule by which CAMixup mixes, not calibration: a rare class looks over-confident here "
                f"even where all probabilities are right. {note}"
            )
            yield gap_section(f"groups-{place}", heading, "class", rows, text)
        else:
            yield gap_section(f"groups-{place}", f"By group: {by}", by, rows, note)


def _remedies(report: AuditReport) -> Table:
    rows = tuple(
        (
            Cell(
                f"{remedy.method} (recommended)" if remedy.recommended else remedy.method,
                best=remedy.recommended,
            ),
            Cell(f"{remedy.nll:.4f}", remedy.nll),
            Cell(f"{remedy.brier:.4f}", remedy.brier),
            _percent(remedy.ece),
            Cell(f"{remedy.difference.value:+.4f}", remedy.difference.value) if place else Cell(""),
            Cell(f"{remedy.difference.low:+.4f} to {remedy.difference.high:+.4f}") if place else Cell(""),
            Cell({"nll": "NLL", "brier": "Brier"}[remedy.difference_of]) if place else Cell(""),
        )
        for place, remedy in enumerate(report.remedies)
    )
    heads = ("remedy", "NLL", "Brier", "ECE", "difference to nothing", "interval", "of")
    caption = "Cross-validated: every number is of examples that the fit has not seen. Below 0 is better."
    return Table(caption, heads, rows)


def _percent(share: float) -> Cell:
    return Cell(percent(share), share)


KINDS = {"over-confident": "over", "too high": "over", "under-confident": "under", "too low": "under"}


def _gap_cells(gap: Interval, limit: float, direction: str = "") -> tuple[Cell, Cell, Cell]:
    few = direction == "too few"
    kind = "few" if few else KINDS.get(direction, "")
    return (
        Cell(show("gap", gap.value), gap.value),
        Cell("" if few else show_interval("gap", gap).removesuffix(" %")),
        PlotCell("", gap.value, low=gap.low, high=gap.high, limit=limit, kind=kind),
    )


def interval_limit(intervals: Sequence[Interval], *, least: float = 0.02) -> float:
    """End of a plot's scale: of a few intervals all are whole, of many nine in ten."""
    ends = sorted(max(abs(each.low), abs(each.high)) for each in intervals)
    whole = 1.0 if len(ends) <= 2 * MANY else 0.9
    return max(least, ends[int(whole * (len(ends) - 1))] if ends else 1.0)


def _scale(limit: float) -> str:
    text = f"{100 * limit:.0f}"
    return f"Plots: the dot is the value, the line its interval, from -{text} to +{text} points around 0."
