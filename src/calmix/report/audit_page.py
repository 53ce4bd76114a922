"""The page of an audit: the verdict first, then what to do, then every number."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from calmix.auditing.reliability import ReliabilityBins, reliability_bins
from calmix.auditing.remedies import NOTHING
from calmix.auditing.report import SCHEMA_VERSION, AuditReport
from calmix.predictions.pooling import pool_rows
from calmix.report.audit_tables import audit_tables
from calmix.report.diagram import Diagram, diagram_figure, diagram_of
from calmix.report.downloads import audit_csv, downloads
from calmix.report.glossary import GLOSSARY
from calmix.report.levels import Level, choose_level, level_sentence, merge_levels
from calmix.report.page import inline, render
from calmix.report.style import BLUE, GREEN, CaptionedFigure
from calmix.report.verdicts import VERDICTS
from calmix.version import __version__

DIAGRAM = (
    "On the diagonal it is as often right as it says; above it, more often (under-confident), below it, less "
    "often (over-confident). Dots outside the grey band are not chance. Underneath: the share of examples."
)
POSITIVE = "The same of the probability of the second class, whichever class is predicted."


CONFIDENCE = (
    "All examples by how sure it was. The bar is how often it was right, the mark how often it expected to "
    "be. Grey bars may be off by chance."
)
PROBABILITY = (
    "All examples by the probability that it gave to {0}. The bar is how often it was {0}, the mark that "
    "probability. Grey bars may be off by chance."
)


@dataclass(frozen=True)
class Lead:
    """The picture at the top: one level as 100 dots, and all levels as bars."""

    sentence: str
    level: Level
    levels: tuple[Level, ...]
    outcome: str = "right"
    note: str = CONFIDENCE


def audit_page(report: AuditReport, *, source: str, date: str) -> str:
    """One file that needs no network; `source` says what was audited, `date` when."""
    diagrams = _diagrams(report)
    remedy = next((each for each in report.remedies if each.recommended), None)
    chosen = remedy if remedy is not None and remedy.method != NOTHING else None
    return render(
        "audit.html",
        title=f"Calibration audit: {source}" if source else "Calibration audit",
        report=report,
        style=VERDICTS[report.verdict],
        lead=make_lead(report),
        remedy=chosen,
        before_after=inline(_before_after(report)) if chosen else [],
        diagrams=inline(_captioned(report, diagrams), first=2),
        tables=audit_tables(report),
        glossary=GLOSSARY,
        provenance=provenance(report, date=date),
        downloads=downloads(report.numbers(), audit_csv(report), name="audit"),
    )


def make_lead(report: AuditReport) -> Lead:
    """Of confidence, or of P(y = 1) where that is what is wrong and confidence does not show it."""
    bins, outcome, label = report.reliability, "", "about {:.0f} % sure"
    if _shifted(report):
        outcome, label = _positive_name(report), "about {:.0f} %"
        bins = _positive_bins(report)
    levels = merge_levels(bins, label=label)
    level = choose_level(levels, report.verdict)
    sentence = level_sentence(level, outcome=outcome)
    if report.verdict == "inconclusive" and level.kind == "unsure":
        sentence += f" With {level.examples:,} of them, that may be chance."
    note = PROBABILITY.format(outcome) if outcome else CONFIDENCE
    return Lead(sentence, level, levels, outcome or "right", note)


def _shifted(report: AuditReport) -> bool:
    """Whether P(y = 1) is wrong in a way that confidence does not show."""
    positive = report.evidence.positive
    sure = positive is not None and not positive.low <= 0 <= positive.high
    return sure and report.verdict == "mixed" and report.predictions is not None


def _positive_bins(report: AuditReport) -> ReliabilityBins:
    assert report.predictions is not None
    probs, labels = pool_rows(report.predictions.logits)[:, 1], report.predictions.known_labels
    return reliability_bins(probs.clamp(0, 1), (labels == 1).double(), seed=report.seed)


def _positive_name(report: AuditReport) -> str:
    assert report.predictions is not None
    name = report.predictions.class_names[1]
    return "y = 1" if name == "1" else name


def _diagrams(report: AuditReport) -> dict[str, Diagram]:
    """By what they are of: the top label, and with two classes P(y = 1)."""
    if report.predictions is None:
        return {"confidence": Diagram(report.reliability)}
    diagrams = {"confidence": diagram_of(report.predictions)}
    if report.num_classes == 2:
        diagrams["positive"] = diagram_of(report.predictions, positive=True)
    return diagrams


def _captioned(report: AuditReport, diagrams: Mapping[str, Diagram]) -> Iterator[CaptionedFigure]:
    for name, diagram in diagrams.items():
        positive = name == "positive"
        title = f"P({_positive_name(report)}) against its rate" if positive else "Accuracy against confidence"
        caption = f"{POSITIVE} {DIAGRAM}" if positive else DIAGRAM
        drawing = diagram_figure(diagram, positive=positive)
        yield CaptionedFigure(name, title, caption, describe(diagram.bins, positive=positive), drawing)


def _before_after(report: AuditReport) -> Iterator[CaptionedFigure]:
    pair = {"Before": report.reliability, "After": report.reliability_after}
    positive = _shifted(report) and report.positive_after is not None
    if positive and report.positive_after is not None:
        pair = {"Before": _positive_bins(report), "After": report.positive_after}
    captions = (
        "As it is now.",
        "On examples that the fit of the remedy has not seen. The nearer to the diagonal, the better.",
    )
    both = [Diagram(bins) for bins in pair.values()]
    for (name, bins), caption in zip(pair.items(), captions, strict=True):
        colour = GREEN if name == "After" else BLUE
        drawing = diagram_figure(Diagram(bins), colour=colour, positive=positive, beside=both)
        words = f"{name}: {describe(bins, positive=positive)}"
        yield CaptionedFigure(name.lower(), name, caption, words, drawing)


def describe(bins: ReliabilityBins, *, positive: bool = False) -> str:
    """A diagram in words, for readers who cannot see it; a positive one is of P(y = 1)."""
    what = "are y = 1" if positive else "right"
    levels = "; ".join(
        f"{level.label}: {level.actual_of_100} of 100 {what} ({level.examples:,} examples)"
        for level in merge_levels(bins)
    )
    inside = (bins.accuracy >= bins.null_low) & (bins.accuracy <= bins.null_high)
    return f"Reliability diagram. {levels}. {int(inside.sum())} of {len(inside)} bins lie within the band."


def provenance(report: AuditReport, *, date: str) -> dict[str, str]:
    """What the numbers come from, for a reader who wants to repeat them."""
    return {
        "calmix": __version__,
        "PyTorch": torch.__version__,
        "Date": date,
        "Seed": str(report.seed),
        "Resamples": f"{report.resamples:,}",
        "Level of intervals": f"{100 * report.level:g} %",
        "Tolerance": f"{100 * report.tolerance:g} points",
        "JSON schema": f"version {SCHEMA_VERSION}",
        **{f"SHA-256 of {each['name']}": each["sha256"] for each in report.inputs},
    }
