"""Calibration metrics: pure functions of probabilities (N, C) and labels (N,), NumPy or torch, on any device.

Probabilities (N,) are P(y = 1), and judged as such: in bins of P(y = 1) itself, against the rate of y = 1.
Probabilities (N, C, ...) with labels (N, ...) are those of pixels (segmentation): each is an example, and
`ignore_index` leaves out those with that label. Intervals and nulls refuse them, because the pixels of an
image are not independent.

Sums are taken in float64 whatever the input, in blocks of rows. Bad input raises `InputError`;
nothing is renormalised or guessed.
"""

from calmix.metrics.debiased import dce
from calmix.metrics.decomposition import BrierParts, Refinement, brier_parts, refinement
from calmix.metrics.disagreement import Diversity, diversity
from calmix.metrics.entropies import Uncertainty, uncertainty
from calmix.metrics.errors import ace, ece, sce, tace
from calmix.metrics.gaps import Reliability, class_gap, reliability
from calmix.metrics.kernel import skce
from calmix.metrics.nulls import Null, null
from calmix.metrics.rejection import Selective, selective
from calmix.metrics.resampling import Interval, bootstrap, bootstrap_each
from calmix.metrics.scores import accuracy, brier, gap, nll
from calmix.metrics.smooth import smooth_ece
from calmix.metrics.streaming import Accumulator, Scores

SCALARS = {f.__name__: f for f in (accuracy, nll, brier, ece, ace, sce, tace, dce, skce, gap)}

__all__ = [
    "SCALARS",
    "Accumulator",
    "BrierParts",
    "Diversity",
    "Interval",
    "Null",
    "Refinement",
    "Reliability",
    "Scores",
    "Selective",
    "Uncertainty",
    "accuracy",
    "ace",
    "bootstrap",
    "bootstrap_each",
    "brier",
    "brier_parts",
    "class_gap",
    "dce",
    "diversity",
    "ece",
    "gap",
    "nll",
    "null",
    "refinement",
    "reliability",
    "sce",
    "selective",
    "skce",
    "smooth_ece",
    "tace",
    "uncertainty",
]
