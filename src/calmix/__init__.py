"""calmix: calibrated mixing. Ensembles mix models, Mixup mixes data; calmix keeps the two calibrated."""

import importlib
from typing import TYPE_CHECKING, Any

import calmix.interrupts as _interrupts  # noqa: F401  (first: Ctrl-C while torch is imported)
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
from calmix.predictions import Predictions, load_predictions, pool, save_predictions
from calmix.predictor import Predictor
from calmix.version import __version__

if TYPE_CHECKING:
    from calmix import data
    from calmix.auditing import audit
    from calmix.corruptions import CORRUPTIONS, EXTRA_CORRUPTIONS, corrupt
    from calmix.report.reliability import plot_reliability
    from calmix.runs.api import evaluate, train
    from calmix.study.collection import load_runs
    from calmix.study.sweep import sweep

# Loaded when first used: they import OpenCV, SciPy's statistics or matplotlib.
_LAZY = {
    "CORRUPTIONS": "calmix.corruptions",
    "EXTRA_CORRUPTIONS": "calmix.corruptions",
    "audit": "calmix.auditing",
    "corrupt": "calmix.corruptions",
    "evaluate": "calmix.runs.api",
    "load_runs": "calmix.study.collection",
    "plot_reliability": "calmix.report.reliability",
    "sweep": "calmix.study.sweep",
    "train": "calmix.runs.api",
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
    "Predictor",
    "RegMixup",
    "__version__",
    "audit",
    "augment",
    "corrupt",
    "crop_flip",
    "cross_entropy",
    "data",
    "ensembles",
    "evaluate",
    "fit_calibrator",
    "fit_conformal",
    "fit_temperature",
    "jensen_shannon",
    "load_calibrator",
    "load_predictions",
    "load_runs",
    "metrics",
    "models",
    "parameter_groups",
    "plot_reliability",
    "pool",
    "save_predictions",
    "smooth_labels",
    "sweep",
    "train",
]
