"""Figures of many runs: each draws the groups of runs or the numbers it is given."""

from calmix.report.figures.comparisons import bars, before_and_after, lines
from calmix.report.figures.corruption import severity_boxes
from calmix.report.figures.training import mixed_classes, training_curves
from calmix.report.style import CaptionedFigure

__all__ = [
    "CaptionedFigure",
    "bars",
    "before_and_after",
    "lines",
    "mixed_classes",
    "severity_boxes",
    "training_curves",
]
