"""What the paper reports, in per cent: WRN-28-10 on CIFAR, ResNet-50 on ImageNet, four members.

Wen et al., "Combining Ensembles and Data Augmentation can Harm your Calibration", ICLR 2021.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PaperNumbers:
    """Accuracy and ECE on the test set, and their means `ca` and `cece` over the corrupted ones."""

    dataset: str
    ensemble: str
    augment: str
    accuracy: float
    ece: float
    ca: float | None = None
    cece: float | None = None


@dataclass(frozen=True)
class PaperSpread:
    """Standard deviations over the paper's five seeds."""

    dataset: str
    ensemble: str
    augment: str
    accuracy: float
    ece: float
    ca: float
    cece: float


@dataclass(frozen=True)
class PaperSKCE:
    """Squared kernel calibration error, on the test set and on the corrupted ones; no per cent."""

    dataset: str
    ensemble: str
    augment: str
    clean: float
    corrupted: float


@dataclass(frozen=True)
class OtherECE:
    """An ECE that the paper quotes for another method."""

    method: str
    dataset: str
    ece: float
    corrupted: float | None = None


@dataclass(frozen=True)
class SmoothedECE:
    """ECE at a coefficient of label smoothing, from the authors' published notebook."""

    dataset: str
    ensemble: str
    smoothing: float
    ece: float


NUMBERS = (
    PaperNumbers("cifar10", "batch", "none", 96.22, 1.8, 77.5, 12.9),
    PaperNumbers("cifar10", "batch", "mixup", 96.98, 6.4, 80.0, 9.3),
    PaperNumbers("cifar10", "batch", "camixup", 96.94, 1.2, 81.1, 9.7),
    PaperNumbers("cifar10", "batch", "augmix", 97.36, 1.02, 89.49, 2.6),
    PaperNumbers("cifar10", "batch", "augmix+mixup", 97.52, 1.71, 90.05, 2.8),
    PaperNumbers("cifar10", "batch", "augmix+camixup", 97.47, 0.45, 89.81, 2.4),
    PaperNumbers("cifar100", "batch", "none", 81.85, 2.8, 54.1, 19.1),
    PaperNumbers("cifar100", "batch", "mixup", 83.12, 9.7, 59.3, 8.8),
    PaperNumbers("cifar100", "batch", "camixup", 83.02, 2.3, 59.7, 8.9),
    PaperNumbers("cifar100", "batch", "augmix", 83.57, 2.96, 67.12, 7.1),
    PaperNumbers("cifar100", "batch", "augmix+mixup", 83.77, 4.19, 69.26, 4.8),
    PaperNumbers("cifar100", "batch", "augmix+camixup", 83.74, 2.35, 68.71, 4.4),
    PaperNumbers("cifar10", "deep", "none", 96.66, 0.78, 76.80, 9.8),
    PaperNumbers("cifar10", "deep", "mixup", 97.11, 6.15, 83.33, 8.0),
    PaperNumbers("cifar10", "deep", "camixup", 96.95, 1.92, 83.01, 4.4),
    PaperNumbers("cifar10", "deep", "augmix", 97.39, 0.59, 89.50, 3.3),
    PaperNumbers("cifar10", "deep", "augmix+mixup", 97.56, 2.71, 90.03, 4.3),
    PaperNumbers("cifar10", "deep", "augmix+camixup", 97.48, 1.89, 89.94, 4.7),
    PaperNumbers("cifar100", "deep", "none", 82.7, 2.1, 54.1, 13.8),
    PaperNumbers("cifar100", "deep", "mixup", 83.90, 9.42, 61.02, 8.9),
    PaperNumbers("cifar100", "deep", "camixup", 83.68, 5.22, 59.18, 8.6),
    PaperNumbers("cifar100", "deep", "augmix", 84.15, 5.13, 68.21, 6.7),
    PaperNumbers("cifar100", "deep", "augmix+mixup", 84.85, 6.86, 69.31, 7.6),
    PaperNumbers("cifar100", "deep", "augmix+camixup", 84.64, 5.29, 69.19, 5.9),
    PaperNumbers("imagenet", "batch", "none", 77.0, 2.0),
    PaperNumbers("imagenet", "batch", "mixup", 77.5, 2.1),
    PaperNumbers("imagenet", "batch", "camixup", 77.4, 1.5),
)

SPREADS = (
    PaperSpread("cifar10", "batch", "none", 0.07, 0.2, 0.3, 1.2),
    PaperSpread("cifar10", "batch", "mixup", 0.08, 0.4, 0.4, 0.3),
    PaperSpread("cifar10", "batch", "camixup", 0.10, 0.2, 0.4, 0.35),
    PaperSpread("cifar100", "batch", "none", 0.09, 0.1, 0.3, 0.8),
    PaperSpread("cifar100", "batch", "mixup", 0.08, 0.5, 0.3, 0.4),
    PaperSpread("cifar100", "batch", "camixup", 0.10, 0.1, 0.3, 0.4),
)

SKCE = (
    PaperSKCE("cifar10", "batch", "none", 3.4e-4, 0.026),
    PaperSKCE("cifar10", "batch", "mixup", 4e-3, 0.024),
    PaperSKCE("cifar10", "batch", "camixup", 1.3e-4, 0.019),
    PaperSKCE("cifar10", "deep", "none", 3.4e-5, 0.018),
    PaperSKCE("cifar10", "deep", "mixup", 4.4e-3, 0.0068),
    PaperSKCE("cifar10", "deep", "camixup", 4.3e-4, 0.0032),
)

OTHERS = (
    OtherECE("Rank-1 BNN", "cifar10", 0.8, 8.0),
    OtherECE("Rank-1 BNN", "cifar100", 1.8, 11.7),
    OtherECE("Rank-1 BNN", "imagenet", 1.7),
    OtherECE("temperature scaling, WRN-32", "cifar10", 0.54),
    OtherECE("temperature scaling, WRN-32", "cifar100", 2.3),
    OtherECE("Mixup, ResNet-50", "imagenet", 3.2),
    OtherECE("label smoothing", "imagenet", 1.8),
)

SMOOTHED = (
    SmoothedECE("cifar10", "mc", 0.1, 7.5),
    SmoothedECE("cifar10", "mc", 0.2, 15.6),
    SmoothedECE("cifar10", "mc", 0.5, 41.9),
    SmoothedECE("cifar10", "deep", 0.1, 8.3),
    SmoothedECE("cifar10", "deep", 0.2, 17.0),
    SmoothedECE("cifar10", "deep", 0.5, 43.0),
    SmoothedECE("cifar10", "batch", 0.1, 7.7),
    SmoothedECE("cifar10", "batch", 0.2, 16.2),
    SmoothedECE("cifar10", "batch", 0.5, 42.6),
)


def paper_numbers(dataset: str, ensemble: str, augment: str) -> PaperNumbers | None:
    """What the paper reports for this combination, if anything.

    >>> paper_numbers("cifar10", "batch", "camixup").ece
    1.2
    """
    wanted = (dataset, ensemble, augment)
    return next((n for n in NUMBERS if (n.dataset, n.ensemble, n.augment) == wanted), None)


def paper_spread(dataset: str, ensemble: str, augment: str) -> PaperSpread | None:
    """The spread over seeds that the paper gives with it, if any."""
    wanted = (dataset, ensemble, augment)
    return next((s for s in SPREADS if (s.dataset, s.ensemble, s.augment) == wanted), None)
