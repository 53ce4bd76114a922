"""Calibration metrics: pure functions of probabilities (N, C) and labels (N,), NumPy or torch, on any device.

Sums are taken in float64 whatever the input, in blocks of rows; bad input is refused, never mended.
"""

from calmix.metrics.bootstrap import Interval, bootstrap, bootstrap_each
from calmix.metrics.debiased import dce
from calmix.metrics.diversity import Diversity, diversity
from calmix.metrics.errors import ace, ece, sce, tace
from calmix.metrics.kernel import skce
from calmix.metrics.reliability import Reliability, class_gap, reliability
from calmix.metrics.scores import accuracy, brier, gap, nll
from calmix.metrics.streaming import Accumulator, Scores

SCALARS = {f.__name__: f for f in (accuracy, nll, brier, ece, ace, sce, tace, dce, skce, gap)}

__all__ = [
    "SCALARS",
    "Accumulator",
    "Diversity",
    "Interval",
    "Reliability",
    "Scores",
    "accuracy",
    "ace",
    "bootstrap",
    "bootstrap_each",
    "brier",
    "class_gap",
    "dce",
    "diversity",
    "ece",
    "gap",
    "nll",
    "reliability",
    "sce",
    "skce",
    "tace",
]
