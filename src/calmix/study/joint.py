"""The joint calibrator on a finished run: fitted on validation predictions, measured clean and corrupted."""

import statistics
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from torch import Tensor

from calmix import metrics
from calmix.calibrate import fit_calibrator
from calmix.corruptions import CORRUPTIONS, SEVERITIES
from calmix.predictions import Predictions

METRICS = ("accuracy", "ece", "nll", "ca", "cece", "cnll")


def joint_scores(load: Callable[[str], Predictions], *, corrupted: bool) -> npt.NDArray[np.float64]:
    """METRICS of the pool at the temperature and spread fitted on validation predictions, (6,); those under
    corruption are nan without it."""
    validation = load("validation")
    assert validation.labels is not None, "predictions of a run have labels"
    calibrator = fit_calibrator(validation.logits, validation.labels, method="joint")

    def scores(what: str) -> list[float]:
        predictions = load(what)
        probs: Tensor = calibrator(predictions.logits)
        labels = predictions.labels
        assert labels is not None
        return [float(metric(probs, labels)) for metric in (metrics.accuracy, metrics.ece, metrics.nll)]

    sets = [f"{name}-{severity}" for name in CORRUPTIONS for severity in SEVERITIES] if corrupted else []
    means = [statistics.fmean(column) for column in zip(*map(scores, sets), strict=True)]
    return np.array([*scores("test"), *(means or [np.nan] * 3)])
