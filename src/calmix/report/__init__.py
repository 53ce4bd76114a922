"""Figures, tables and the page, all made from predictions and run folders."""

from calmix.report.reliability import accuracy_diagram, reliability_diagram
from calmix.report.style import save_figure

__all__ = ["accuracy_diagram", "reliability_diagram", "save_figure"]
