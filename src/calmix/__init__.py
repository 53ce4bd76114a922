"""calmix: calibrated mixing. Ensembles mix models, Mixup mixes data; calmix keeps the two calibrated."""

import importlib
from typing import TYPE_CHECKING, Any

from calmix import augment, ensembles, metrics, models
from calmix.augment import (
    AugMix,
    CAMixup,
    CutMix,
    ForgettingMixup,
    Mixup,
    MixupMP,
    RegMixup,
    crop_flip,
    cross_entropy,
    jensen_shannon,
    smooth_labels,
)
from calmix.calibrate import fit_calibrator, fit_conformal, fit_temperature, load_calibrator
from calmix.ensembles import BatchEnsemble, DeepEnsemble, MCDropout, parameter_groups
from calmix.errors import InputError
from calmix.predictions import (
    Predictions,
    iter_predictions,
    load_predictions,
    pool,
    predict,
    save_predictions,
)
from calmix.version import __version__

if TYPE_CHECKING:
    from calmix import data
    from calmix.auditing import audit
    from calmix.auditing.compare import compare
    from calmix.corruptions import CORRUPTIONS, EXTRA_CORRUPTIONS, corrupt
    from calmix.report.reliability import plot_reliability

# Loaded when first used: they import OpenCV, SciPy's statistics or matplotlib.
_LAZY = {
    "CORRUPTIONS": "calmix.corruptions",
    "EXTRA_CORRUPTIONS": "calmix.corruptions",
    "audit": "calmix.auditing",
    "compare": "calmix.auditing.compare",
    "corrupt": "calmix.corruptions",
    "plot_reliability": "calmix.report.reliability",
}


def __getattr__(name: str) -> Any:
    if name == "data":
        return importlib.import_module("calmix.data")
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'calmix' has no attribute {name!r}")


__all__ = [
    "CORRUPTIONS",
    "EXTRA_CORRUPTIONS",
    "AugMix",
    "BatchEnsemble",
    "CAMixup",
    "CutMix",
    "DeepEnsemble",
    "ForgettingMixup",
    "InputError",
    "MCDropout",
    "Mixup",
    "MixupMP",
    "Predictions",
    "RegMixup",
    "__version__",
    "audit",
    "augment",
    "compare",
    "corrupt",
    "crop_flip",
    "cross_entropy",
    "data",
    "ensembles",
    "fit_calibrator",
    "fit_conformal",
    "fit_temperature",
    "iter_predictions",
    "jensen_shannon",
    "load_calibrator",
    "load_predictions",
    "metrics",
    "models",
    "parameter_groups",
    "plot_reliability",
    "pool",
    "predict",
    "save_predictions",
    "smooth_labels",
]
