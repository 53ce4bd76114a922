"""8-bit images, and how real values become them."""

from typing import Any

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.uint8]
Reals = npt.NDArray[np.floating[Any]]


def truncate(values: Reals) -> Images:
    """Real grey levels -> 8 bits: clipped to 0..255 and, as in the benchmark, the fraction dropped.

    >>> truncate(np.array([-3.0, 7.9, 255.0, 300.0])).tolist()
    [0, 7, 255, 255]
    """
    return np.clip(values, 0, 255).astype(np.uint8)


def truncate_single(values: Reals) -> Images:
    """`truncate` for values with single precision's noise, so that a flat 200 at 199.99999 stays 200."""
    return truncate(values + np.float32(1e-3))
