"""An audit as a page."""

from pathlib import Path

from calmix import files
from calmix.audit import AuditReport
from calmix.audit.words import percent, show
from calmix.predictions import Predictions
from calmix.report.markup import Html, tag
from calmix.report.page import document, figures_section, section
from calmix.report.plates import Plate
from calmix.report.reliability import accuracy_diagram, reliability_diagram


def audit_page(report: AuditReport, predictions: Predictions, *, source: str) -> str:
    """Verdict, numbers with their intervals, members, classes, diagrams and advice; `source` says of what."""
    level = f"{100 * report.level:g} % interval"
    sections = [
        tag("p", {"class": "note"}, f"{report.examples:,} examples, {report.num_classes} classes: {source}"),
        tag(
            "div",
            {"class": "verdict"},
            tag("strong", None, report.verdict),
            tag("p", None, report.explanation),
        ),
        section("What would help", tag("ul", None, *(tag("li", None, text) for text in report.advice))),
        figures_section("Reliability", _plates(predictions)),
    ]
    pool = {**report.metrics, "gap": report.evidence.gap}
    rows = [[name, *show(name, estimate)] for name, estimate in pool.items()]
    sections.append(section("Metrics", _table(["", "value", level], rows)))
    if len(report.members) > 1:
        rows = [
            [str(k), percent(member.accuracy), percent(member.ece), *show("gap", member.gap)]
            for k, member in enumerate(report.members)
        ]
        sections.append(section("Members", _table(["member", "accuracy", "ece", "gap", level], rows)))
    rows = [
        [group.name, str(group.examples), percent(group.accuracy), *show("gap", group.gap), group.direction]
        for group in report.classes
    ]
    heads = [report.by, "examples", "accuracy", "gap", "interval", "direction"]
    note = tag("p", {"class": "note"}, "Worst first; all intervals hold at once (Bonferroni).")
    sections.append(section("Classes" if report.by == "class" else "Groups", note, _table(heads, rows)))
    if report.notes:
        sections.append(section("Notes", *(tag("p", None, text) for text in report.notes)))
    return document("calmix audit", *sections)


def write_audit_page(report: AuditReport, predictions: Predictions, out: Path, *, source: str) -> None:
    with files.replacing(out) as file:
        file.write(audit_page(report, predictions, source=source).encode())


def _plates(predictions: Predictions) -> list[Plate]:
    held = {"pool" if len(predictions.logits) > 1 else "model": predictions}
    return [
        Plate(
            name="reliability",
            title="Accuracy minus confidence",
            caption="Above 0 it is right more often than it claims, below 0 less often. The pool is drawn "
            "thick, its members thin. Below: how many examples have that confidence.",
            alt="Lines of accuracy minus confidence in bins of confidence.",
            figure=reliability_diagram(held),
        ),
        Plate(
            name="accuracy",
            title="Accuracy against confidence",
            caption="The same in another view: on the diagonal it is calibrated, above it under-confident.",
            alt="Lines of accuracy in bins of confidence.",
            figure=accuracy_diagram(held),
        ),
    ]


def _table(heads: list[str], rows: list[list[str]]) -> Html:
    head = tag("thead", None, tag("tr", None, *(tag("th", {"scope": "col"}, text) for text in heads)))
    body = tag("tbody", None, *(tag("tr", None, *(tag("td", None, cell) for cell in row)) for row in rows))
    return tag("div", {"class": "scroll"}, tag("table", None, head, body))
