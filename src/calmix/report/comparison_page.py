"""The page of a comparison: two models side by side, then the difference of every number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calmix.auditing.compare import Comparison, Difference, RowDifference
from calmix.auditing.measures import MEASURES
from calmix.auditing.summary import summarise
from calmix.auditing.text import show
from calmix.auditing.verdict import Verdict, decide, explain, gather_evidence
from calmix.metrics import Interval
from calmix.predictions import Predictions
from calmix.report.audit_page import DIAGRAM, describe
from calmix.report.audit_tables import MANY, PlotCell, Section, interval_limit
from calmix.report.diagram import Diagram, diagram_figure, diagram_of
from calmix.report.downloads import comparison_csv, downloads
from calmix.report.page import inline, render
from calmix.report.style import BLUE, GREEN, CaptionedFigure
from calmix.report.tables import Cell, Table
from calmix.report.verdicts import VERDICTS
from calmix.report.words import listed
from calmix.version import __version__

KINDS = {"a": "under", "b": "ok", "unclear": ""}  # colours of plots: blue for a, green for b


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two: its name, its verdict alone, and its reliability diagram."""

    name: str
    examples: int
    verdict: Verdict
    explanation: str
    diagram: Diagram


def judge_side(name: str, predictions: Predictions, *, level: float = 0.95, seed: int = 0) -> Side:
    """The verdict of an audit, without its metrics and remedies."""
    summary = summarise(predictions.logits, predictions.known_labels)
    evidence = gather_evidence(summary, level=level, seed=seed)
    verdict = decide(evidence)
    return Side(name, len(predictions), verdict, explain(evidence, verdict), diagram_of(predictions))


def comparison_page(
    comparison: Comparison, sides: Sequence[Side], *, date: str, inputs: Sequence[dict[str, str]] = ()
) -> str:
    """One file that needs no network."""
    figures = inline(
        CaptionedFigure(
            f"side-{letter}",
            f"{letter}: {side.name}",
            DIAGRAM,
            f"{letter}: {describe(side.diagram.bins)}",
            diagram_figure(side.diagram, colour=colour, beside=[each.diagram for each in sides]),
        )
        for letter, side, colour in zip("ab", sides, (BLUE, GREEN), strict=True)
    )
    provenance = {
        "calmix": __version__,
        "Date": date,
        "Level of intervals": f"{100 * comparison.level:g} %",
        **{f"SHA-256 of {each['name']}": each["sha256"] for each in inputs},
    }
    return render(
        "comparison.html",
        title="Calibration: two models compared",
        comparison=comparison,
        sides=sides,
        styles=[VERDICTS[side.verdict] for side in sides],
        sentence=sentence(comparison),
        figures=figures,
        sections=_sections(comparison),
        provenance=provenance,
        downloads=downloads(comparison.numbers(), comparison_csv(comparison), name="comparison"),
    )


def sentence(comparison: Comparison) -> str:
    """Which of the two is better for sure, and in what."""
    better = {
        side: [_title(name) for name, row in comparison.metrics.items() if row.better == side]
        for side in ("a", "b")
    }
    parts = [f"{side} is better in {listed(names)}" for side, names in better.items() if names]
    if not parts:
        return "In no metric is one of the two better for sure."
    return "For sure, " + "; ".join(parts) + "."


def _title(name: str) -> str:
    return name if name in ("accuracy", "gap") else MEASURES[name].title


def _sections(comparison: Comparison) -> list[Section]:
    level = f"{100 * comparison.level:g} % interval"
    metrics = tuple(_metric(name, row) for name, row in comparison.metrics.items())
    heads = ("metric", "a", "b", "b - a", level, "better", "what it is")
    caption = "* approximate: resampling changes the error of both sides, not quite alike."
    sections = [Section("metrics", "Differences", Table(caption, heads, metrics))]
    groups = [("class", comparison.classes), *comparison.groups.items()]
    for place, (name, rows) in enumerate(groups):
        if not rows:
            continue
        heading, what = (f"By group: {name}", name) if place else ("By class", "class")
        note = (
            "Brier score of each group's examples"
            if place
            else "Brier score of each class against the rest, over all examples"
        )
        note += "; lower is better. Intervals hold all at once (Bonferroni)."
        search = ({"class": "classes"}.get(what, what)) if len(rows) > MANY else ""
        sections.append(Section(f"rows-{place}", heading, _rows(what, rows), search, note))
    return sections


def _metric(name: str, row: Difference) -> tuple[Cell, ...]:
    difference = row.difference
    sign = "+" if difference.value > 0 and MEASURES[name].unit != "points" else ""
    return (
        Cell(MEASURES[name].title),
        Cell(show(name, row.a), row.a, best=row.better == "a"),
        Cell(show(name, row.b), row.b, best=row.better == "b"),
        Cell(f"{sign}{show(name, difference.value)}", difference.value),
        Cell(_ends(name, difference)),
        Cell(f"{row.better}{' *' if row.approximate else ''}"),
        Cell(MEASURES[name].explanation),
    )


def _ends(name: str, interval: Interval) -> str:
    if math.isnan(interval.low):
        return "none"
    return f"{show(name, interval.low).removesuffix(' %')} to {show(name, interval.high)}"


def _rows(what: str, rows: Sequence[RowDifference]) -> Table:
    limit = interval_limit([row.difference for row in rows if not math.isnan(row.difference.low)], least=1e-3)
    heads = (what, "examples", "a", "b", "b - a", "interval", "plot", "better")
    cells = tuple(
        (
            Cell(row.name),
            Cell(f"{row.examples:,}", row.examples),
            Cell(f"{row.a:.4f}", row.a, best=row.better == "a"),
            Cell(f"{row.b:.4f}", row.b, best=row.better == "b"),
            Cell(f"{row.difference.value:+.4f}", row.difference.value),
            *_interval_cells(row, limit),
            Cell(row.better),
        )
        for row in rows
    )
    return Table(f"Plots: b - a from -{limit:.3g} to +{limit:.3g}; to the left b is better.", heads, cells)


def _interval_cells(row: RowDifference, limit: float) -> tuple[Cell, Cell]:
    interval = row.difference
    few = math.isnan(interval.low)
    low, high = (0.0, 0.0) if few else (interval.low, interval.high)
    text = "too few examples" if few else f"{low:+.4f} to {high:+.4f}"
    kind = "few" if few else KINDS[row.better]
    return Cell(text), PlotCell("", interval.value, low=low, high=high, limit=limit, kind=kind)
