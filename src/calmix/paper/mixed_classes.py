"""Which classes CAMixup mixed: how a class's share of the epochs goes with its test accuracy."""

from typing import Any

import numpy as np
import numpy.typing as npt


def rank_correlation(mixed: npt.NDArray[np.float64], accuracy: npt.NDArray[np.float64]) -> float:
    """Of each class's mixed share (members, classes), mean over members, with its accuracy (classes,);
    classes without an accuracy are left out, and where all are alike it is 0.

    >>> rank_correlation(np.array([[0.9, 0.5, 0.1, 0.3]]), np.array([0.1, 0.2, 0.9, np.nan]))
    -1.0
    """
    present = np.isfinite(accuracy)
    share, accuracy = mixed.mean(0)[present], accuracy[present]
    if np.ptp(share) == 0 or np.ptp(accuracy) == 0:
        return 0.0
    return round(float(np.corrcoef(_ranks(share), _ranks(accuracy))[0, 1]), 12)


def _ranks(values: Any) -> Any:
    """Ranks from 1; of equal values, their mean. (scipy.stats has them, and takes a second to import.)"""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (count.cumsum() - (count - 1) / 2)[place]
