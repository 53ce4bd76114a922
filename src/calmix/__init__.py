"""calmix: calibrated mixing. Ensembles mix models, Mixup mixes data; calmix keeps the two calibrated."""

from calmix.errors import InputError
from calmix.predictions import Predictions, load_predictions, pool, save_predictions

__all__ = ["InputError", "Predictions", "load_predictions", "pool", "save_predictions"]
