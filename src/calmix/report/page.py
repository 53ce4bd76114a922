"""Pages: single HTML files that need no network. Whatever users name is escaped, never run."""

from collections.abc import Iterable, Mapping

import jinja2
from markupsafe import Markup

from calmix.auditing.groups import GroupGap
from calmix.auditing.measures import MEASURES
from calmix.auditing.report import AuditReport
from calmix.auditing.text import percent, show, show_beside, show_interval
from calmix.metrics import Interval
from calmix.report.figures import CaptionedFigure
from calmix.report.style import styled
from calmix.report.svg import svg_text
from calmix.report.tables import Cell, Published, Table, comparison, runs_table
from calmix.runs.command import train_command
from calmix.study.quantities import COLUMNS
from calmix.study.results import Results

WORST_FIRST = "Worst first. The intervals hold all at once (Bonferroni)."
TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("calmix.report", "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def runs_page(
    results: Results,
    figures: Iterable[CaptionedFigure],
    *,
    claims: Table | None = None,
    published: Published | None = None,
    title: str = "calmix report",
) -> str:
    """The page of many runs: claims, means over seeds, each run, figures, and the recipes to repeat them."""
    groups = results.groups()
    several = len(groups) < len(results)  # seeds of one recipe
    first = ("data set", "ensemble", "augmentation", "runs")
    shown = [quantity for quantity in COLUMNS if quantity.values(results)]
    return TEMPLATES.get_template("report.html").render(
        title=title,
        claims=claims,
        published=published is not None,
        means=comparison("", groups, shown, published=published, first=first) if several else None,
        runs_table=runs_table(results, published=None if several else published),
        figures=_inline(figures),
        runs=results,
        command=train_command,
    )


def audit_page(report: AuditReport, figures: Iterable[CaptionedFigure], *, source: str) -> str:
    """The page of an audit: verdict, advice, figures, and every number with its interval; `source` says of
    what."""
    return TEMPLATES.get_template("audit.html").render(
        title="calmix audit", report=report, source=source, figures=_inline(figures), tables=_tables(report)
    )


def _inline(figures: Iterable[CaptionedFigure]) -> list[dict[str, str]]:
    """Figures as SVG, one after the other, so that they need not all be in memory."""
    inline = []
    for place, shown in enumerate(figures):
        with styled():
            text = svg_text(shown.figure, title=shown.title, alt=shown.alt, name=f"f{place}", themed=True)
        inline.append({"svg": Markup(text), "title": shown.title, "caption": shown.caption})
    return inline


def _tables(report: AuditReport) -> Mapping[str, Table]:
    level = f"{100 * report.level:g} % interval"
    metrics = tuple(
        (
            Cell(MEASURES[name].title, tooltip=MEASURES[name].explanation),
            Cell(show(name, estimate.value), estimate.value),
            Cell(show_beside(name, estimate)),
            Cell(MEASURES[name].explanation),
        )
        for name, estimate in report.metrics.items()
    )
    beside = f"{level}, or a calibrated model"
    tables = {"Metrics": Table("Of the pool", ("metric", "value", beside, "what it is"), metrics)}
    if len(report.members) > 1:
        members = tuple(
            (Cell(str(k), k), _percent(member.accuracy), _percent(member.ece), *_cells("gap", member.gap))
            for k, member in enumerate(report.members)
        )
        heads = ("member", "accuracy", "ece", "gap", level)
        tables["Members"] = Table("Each member alone", heads, members)
    tables["Predicted classes"] = _gap_table("predicted class", report.classes)
    rates = tuple(
        (
            Cell(row.name),
            _percent(row.mean_probability),
            _percent(row.rate),
            *_cells("gap", row.difference),
            Cell(row.direction),
        )
        for row in report.class_rates
    )
    columns = ("class", "mean P(k)", "rate", "difference", "interval", "direction")
    tables["Class-wise probabilities"] = Table(WORST_FIRST, columns, rates)
    for by in report.by[1:]:
        rows = tuple(row for row in report.groups if row.by == by)
        tables["True classes (CAMixup's rule)" if by == "true-class" else f"Groups: {by}"] = _gap_table(
            by, rows
        )
    remedies = tuple(
        (
            Cell(remedy.method, best=remedy.recommended),
            Cell(f"{remedy.nll:.4f}", remedy.nll),
            _percent(remedy.ece),
            Cell(f"{remedy.difference.low:+.4f} to {remedy.difference.high:+.4f}", remedy.difference.value),
            Cell(remedy.difference_of),
        )
        for remedy in report.remedies
    )
    heads = ("remedy", "NLL", "ECE", "difference to nothing", "of")
    tables["Remedies"] = Table("Cross-validated; the recommended one is marked", heads, remedies)
    return tables


def _gap_table(name: str, rows: Iterable[GroupGap]) -> Table:
    cells = tuple(
        (
            Cell(row.name),
            Cell(f"{row.examples:,}", row.examples),
            _percent(row.accuracy),
            *_cells("gap", row.gap),
            Cell(row.direction),
        )
        for row in rows
    )
    return Table(WORST_FIRST, (name, "examples", "accuracy", "gap", "interval", "direction"), cells)


def _percent(share: float) -> Cell:
    return Cell(percent(share), share)


def _cells(name: str, interval: Interval) -> tuple[Cell, Cell]:
    return Cell(show(name, interval.value), interval.value), Cell(show_interval(name, interval), interval.low)
