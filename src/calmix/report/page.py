"""Pages: single HTML files that need no network. Whatever users name is escaped, never run."""

from collections.abc import Iterable, Mapping

import jinja2
from markupsafe import Markup

from calmix.auditing.report import AuditReport
from calmix.auditing.text import percent, show
from calmix.metrics import Interval
from calmix.report.figures import CaptionedFigure
from calmix.report.style import styled
from calmix.report.svg import svg_text
from calmix.report.tables import Cell, Published, Table, comparison, runs_table
from calmix.runs.command import train_command
from calmix.study.quantities import COLUMNS
from calmix.study.results import Results

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
    pool = {**report.metrics, "gap": report.evidence.gap}
    metrics = tuple((Cell(name), *_cells(name, interval)) for name, interval in pool.items())
    tables = {"Metrics": Table("Of the pool", ("metric", "value", level), metrics)}
    if len(report.members) > 1:
        members = tuple(
            (Cell(str(k), k), _percent(member.accuracy), _percent(member.ece), *_cells("gap", member.gap))
            for k, member in enumerate(report.members)
        )
        heads = ("member", "accuracy", "ece", "gap", level)
        tables["Members"] = Table("Each member alone", heads, members)
    groups = tuple(
        (
            Cell(group.name),
            Cell(f"{group.examples:,}", group.examples),
            _percent(group.accuracy),
            *_cells("gap", group.gap),
            Cell(group.direction),
        )
        for group in report.classes
    )
    caption = "Worst first. The intervals hold all at once (Bonferroni)."
    columns = (report.by, "examples", "accuracy", "gap", "interval", "direction")
    tables["Classes" if report.by == "class" else "Groups"] = Table(caption, columns, groups)
    return tables


def _percent(share: float) -> Cell:
    return Cell(percent(share), share)


def _cells(name: str, interval: Interval) -> tuple[Cell, Cell]:
    value, ends = show(name, interval)
    return Cell(value, interval.value), Cell(ends, interval.low)
