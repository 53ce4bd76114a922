"""calmix: calibrated mixing. Ensembles mix models, Mixup mixes data; calmix keeps the two calibrated.

Every public name is loaded when it is first used, so that commands which need no torch start at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

import calmix.interrupts as _interrupts  # noqa: F401  (first: Ctrl-C while modules are imported)
from calmix.version import __version__

if TYPE_CHECKING:
    from calmix import auditing, augment, data, ensembles, metrics, models
    from calmix.auditing import audit
    from calmix.auditing.compare import compare
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
    from calmix.corruptions import CORRUPTIONS, EXTRA_CORRUPTIONS, corrupt
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
    from calmix.predictor import Predictor
    from calmix.report.reliability import plot_reliability
    from calmix.runs.api import evaluate, train
    from calmix.study.collection import load_runs
    from calmix.study.sweep import sweep

_MODULES = ("auditing", "augment", "data", "ensembles", "metrics", "models")
_NAMES = {
    "calmix.auditing": ("audit",),
    "calmix.auditing.compare": ("compare",),
    "calmix.augment": (
        *("AugMix", "CAMixup", "CutMix", "ForgettingMixup", "Mixup", "MixupMP", "RegMixup"),
        *("crop_flip", "cross_entropy", "jensen_shannon", "smooth_labels"),
    ),
    "calmix.calibrate": ("fit_calibrator", "fit_conformal", "fit_temperature", "load_calibrator"),
    "calmix.corruptions": ("CORRUPTIONS", "EXTRA_CORRUPTIONS", "corrupt"),
    "calmix.ensembles": ("BatchEnsemble", "DeepEnsemble", "MCDropout", "parameter_groups"),
    "calmix.errors": ("InputError",),
    "calmix.predictions": (
        *("Predictions", "iter_predictions", "load_predictions"),
        *("pool", "predict", "save_predictions"),
    ),
    "calmix.predictor": ("Predictor",),
    "calmix.report.reliability": ("plot_reliability",),
    "calmix.runs.api": ("evaluate", "train"),
    "calmix.study.collection": ("load_runs",),
    "calmix.study.sweep": ("sweep",),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"calmix.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'calmix' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
    "auditing",
    "augment",
    "compare",
    "corrupt",
    "crop_flip",
    "cross_entropy",
    "data",
    "ensembles",
    "evaluate",
    "fit_calibrator",
    "fit_conformal",
    "fit_temperature",
    "iter_predictions",
    "jensen_shannon",
    "load_calibrator",
    "load_predictions",
    "load_runs",
    "metrics",
    "models",
    "parameter_groups",
    "plot_reliability",
    "pool",
    "predict",
    "save_predictions",
    "smooth_labels",
    "sweep",
    "train",
]
