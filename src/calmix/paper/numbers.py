"""The paper's numbers as printed, in per cent: WRN-28-10 on CIFAR, ResNet-50 on ImageNet, four members.

Wen et al., "Combining Ensembles and Data Augmentation can Harm your Calibration", ICLR 2021.
"""

from typing import NamedTuple, TypeAlias

from calmix.paper.regime import regime_names
from calmix.study.quantities import Quantity
from calmix.study.results import Group

Published: TypeAlias = tuple[float, float | None]  # a number, and its spread over seeds where there is one
PAPER_REGIMES = ("paper", "paper, the authors' scripts")
IMAGENET_CLASSES = 1000
Key: TypeAlias = tuple[str, str, str]  # data set, ensemble, augmentation


class Row(NamedTuple):
    """Accuracy and ECE on the test set, and their means over the corrupted ones."""

    accuracy: float
    ece: float
    ca: float | None = None
    cece: float | None = None


NUMBERS: dict[Key, Row] = {
    ("cifar10", "batch", "none"): Row(96.22, 1.8, 77.5, 12.9),
    ("cifar10", "batch", "mixup"): Row(96.98, 6.4, 80.0, 9.3),
    ("cifar10", "batch", "camixup"): Row(96.94, 1.2, 81.1, 9.7),
    ("cifar10", "batch", "augmix"): Row(97.36, 1.02, 89.49, 2.6),
    ("cifar10", "batch", "augmix+mixup"): Row(97.52, 1.71, 90.05, 2.8),
    ("cifar10", "batch", "augmix+camixup"): Row(97.47, 0.45, 89.81, 2.4),
    ("cifar100", "batch", "none"): Row(81.85, 2.8, 54.1, 19.1),
    ("cifar100", "batch", "mixup"): Row(83.12, 9.7, 59.3, 8.8),
    ("cifar100", "batch", "camixup"): Row(83.02, 2.3, 59.7, 8.9),
    ("cifar100", "batch", "augmix"): Row(83.57, 2.96, 67.12, 7.1),
    ("cifar100", "batch", "augmix+mixup"): Row(83.77, 4.19, 69.26, 4.8),
    ("cifar100", "batch", "augmix+camixup"): Row(83.74, 2.35, 68.71, 4.4),
    ("cifar10", "deep", "none"): Row(96.66, 0.78, 76.80, 9.8),
    ("cifar10", "deep", "mixup"): Row(97.11, 6.15, 83.33, 8.0),
    ("cifar10", "deep", "camixup"): Row(96.95, 1.92, 83.01, 4.4),
    ("cifar10", "deep", "augmix"): Row(97.39, 0.59, 89.50, 3.3),
    ("cifar10", "deep", "augmix+mixup"): Row(97.56, 2.71, 90.03, 4.3),
    ("cifar10", "deep", "augmix+camixup"): Row(97.48, 1.89, 89.94, 4.7),
    ("cifar100", "deep", "none"): Row(82.7, 2.1, 54.1, 13.8),
    ("cifar100", "deep", "mixup"): Row(83.90, 9.42, 61.02, 8.9),
    ("cifar100", "deep", "camixup"): Row(83.68, 5.22, 59.18, 8.6),
    ("cifar100", "deep", "augmix"): Row(84.15, 5.13, 68.21, 6.7),
    ("cifar100", "deep", "augmix+mixup"): Row(84.85, 6.86, 69.31, 7.6),
    ("cifar100", "deep", "augmix+camixup"): Row(84.64, 5.29, 69.19, 5.9),
    ("imagenet", "batch", "none"): Row(77.0, 2.0),
    ("imagenet", "batch", "mixup"): Row(77.5, 2.1),
    ("imagenet", "batch", "camixup"): Row(77.4, 1.5),
}

# Standard deviations over the paper's five seeds.
SPREADS: dict[Key, Row] = {
    ("cifar10", "batch", "none"): Row(0.07, 0.2, 0.3, 1.2),
    ("cifar10", "batch", "mixup"): Row(0.08, 0.4, 0.4, 0.3),
    ("cifar10", "batch", "camixup"): Row(0.10, 0.2, 0.4, 0.35),
    ("cifar100", "batch", "none"): Row(0.09, 0.1, 0.3, 0.8),
    ("cifar100", "batch", "mixup"): Row(0.08, 0.5, 0.3, 0.4),
    ("cifar100", "batch", "camixup"): Row(0.10, 0.1, 0.3, 0.4),
}

# Squared kernel calibration error, on the test set and on the corrupted ones; no per cent.
SKCE: dict[Key, tuple[float, float]] = {
    ("cifar10", "batch", "none"): (3.4e-4, 0.026),
    ("cifar10", "batch", "mixup"): (4e-3, 0.024),
    ("cifar10", "batch", "camixup"): (1.3e-4, 0.019),
    ("cifar10", "deep", "none"): (3.4e-5, 0.018),
    ("cifar10", "deep", "mixup"): (4.4e-3, 0.0068),
    ("cifar10", "deep", "camixup"): (4.3e-4, 0.0032),
}

# ECE with label smoothing, from the authors' published notebook.
_SMOOTHED = {"mc": (7.5, 15.6, 41.9), "deep": (8.3, 17.0, 43.0), "batch": (7.7, 16.2, 42.6)}
SMOOTHED: dict[Key, float] = {
    ("cifar10", ensemble, f"label-smoothing-{amount}"): value
    for ensemble, values in _SMOOTHED.items()
    for amount, value in zip((0.1, 0.2, 0.5), values, strict=True)
}


def published(quantity: Quantity, group: Group) -> Published | None:
    """The paper's number for a quantity of a group's method, as a fraction; None where it has none.

    It stands only beside the data set and the scale that it belongs to.

    >>> from calmix.runs.presets import preset
    >>> from calmix.study.quantities import ECE
    >>> published(ECE, Group(preset("cifar10", "batch", "camixup", scale="paper"), ()))
    (0.012, 0.002)
    >>> published(ECE, Group(preset("cifar10", "batch", "camixup", scale="laptop"), ()))
    """
    recipe = group.recipe
    if regime_names(recipe)[0].removesuffix(", train on validation") not in PAPER_REGIMES:
        return None
    dataset = recipe.dataset
    if dataset == "folder":  # ImageNet's numbers belong beside ImageNet alone
        classes = {len(summary.classes) for summary in group.summaries}
        dataset = "imagenet" if classes == {IMAGENET_CLASSES} else ""
    return published_number(quantity.name, (dataset, recipe.ensemble, recipe.augment))


def published_number(name: str, key: Key) -> Published | None:
    """The paper's number by the name of a quantity: accuracy, error, ece, ca, cerror, cece, skce, cskce."""
    if name in ("skce", "cskce"):
        return (SKCE[key][name == "cskce"], None) if key in SKCE else None
    if name == "ece" and key in SMOOTHED:
        return SMOOTHED[key] / 100, None
    column = {"error": "accuracy", "cerror": "ca"}.get(name, name)
    if key not in NUMBERS or column not in Row._fields:
        return None
    value, spread = (getattr(table[key], column) if key in table else None for table in (NUMBERS, SPREADS))
    if value is None:
        return None
    share = value / 100 if column == name else 1 - value / 100
    return round(share, 10), None if spread is None else spread / 100
