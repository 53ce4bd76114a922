"""calmix: calibrated mixing. Ensembles mix models, Mixup mixes data; calmix keeps the two calibrated."""

from calmix import augment, data, ensembles, metrics, models, report
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
from calmix.calibrate import fit_temperature
from calmix.corruptions import CORRUPTIONS, EXTRA_CORRUPTIONS, corrupt
from calmix.ensembles import BatchEnsemble, DeepEnsemble, MCDropout, parameter_groups
from calmix.errors import InputError
from calmix.predictions import Predictions, load_predictions, pool, save_predictions
from calmix.version import __version__

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
    "augment",
    "corrupt",
    "crop_flip",
    "cross_entropy",
    "data",
    "ensembles",
    "fit_temperature",
    "jensen_shannon",
    "load_predictions",
    "metrics",
    "models",
    "parameter_groups",
    "pool",
    "report",
    "save_predictions",
    "smooth_labels",
]
