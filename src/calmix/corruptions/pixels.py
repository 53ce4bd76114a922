"""8-bit images, and the conversion of real values to them."""

from typing import Any

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.uint8]
Reals = npt.NDArray[np.floating[Any]]


def truncate(values: Reals) -> Images:
    """Real grey levels to 8 bits: clipped to 0..255 and truncated, as in the benchmark.

    >>> truncate(np.array([-3.0, 7.9, 255.0, 300.0])).tolist()
    [0, 7, 255, 255]
    """
    return np.clip(values, 0, 255).astype(np.uint8)


def truncate_single(values: Reals) -> Images:
    """`truncate` for values with float32 rounding errors: 199.99999 becomes 200."""
    return truncate(values + np.float32(1e-3))
