"""The corruptions of CIFAR-C and ImageNet-C, for batches of 8-bit images."""

from calmix.corruptions.constants import (
    ALL_CORRUPTIONS,
    AUTHORS_CIFAR100,
    CORRUPTIONS,
    EXTRA_CORRUPTIONS,
    SEVERITIES,
)
from calmix.corruptions.dispatch import corrupt
from calmix.corruptions.frost import frost_source

__all__ = [
    "ALL_CORRUPTIONS",
    "AUTHORS_CIFAR100",
    "CORRUPTIONS",
    "EXTRA_CORRUPTIONS",
    "SEVERITIES",
    "corrupt",
    "frost_source",
]
