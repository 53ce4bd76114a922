"""calmix: calibrated mixing. Ensembles mix models, Mixup mixes data; calmix keeps the two calibrated."""

from calmix.errors import InputError

__all__ = ["InputError"]
