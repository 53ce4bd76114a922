"""Noise: Gaussian, shot, impulse, speckle."""

import functools

import numpy as np
import numpy.typing as npt
from scipy.special import pdtr

from calmix.corruptions.draws import Draws
from calmix.corruptions.pixels import Images, truncate


def gaussian_noise(images: Images, draws: Draws, scale: float) -> Images:
    """x + N(0, scale) for every value."""
    return truncate(images + draws.normal(0, 255 * scale, *images.shape[1:]))


def speckle_noise(images: Images, draws: Draws, scale: float) -> Images:
    """x + x N(0, scale) for every value."""
    return truncate(images * draws.normal(1, scale, *images.shape[1:]))


def impulse_noise(images: Images, draws: Draws, amount: float) -> Images:
    """Every value becomes 0 or 255, each with probability `amount` / 2."""
    words = draws.words(*images.shape[1:])
    half = round(amount * 32768)
    noisy = np.where(words < half, np.uint8(0), images)
    return np.where(words >= 65536 - half, np.uint8(255), noisy)


def shot_noise(images: Images, draws: Draws, photons: float) -> Images:
    """Poisson(x photons) / photons for every value, by lookup in a table of quantiles."""
    words = draws.words(*images.shape[1:])
    return np.take(_shot_quantiles(photons), images.astype(np.int32) << 16 | words)


@functools.lru_cache(maxsize=1)
def _shot_quantiles(photons: float) -> Images:
    """The resulting grey level for each level and 16-bit word, flat, level first (16 MB)."""
    counts = np.arange(int(photons + 10 * photons**0.5) + 20)
    levels = truncate(counts / photons * 255)
    below: npt.NDArray[np.float64] = pdtr(counts, np.arange(256)[:, None] / 255 * photons)
    ends = np.rint(below * 65536).astype(np.int64)
    ends[:, -1] = 65536
    return np.concatenate([np.repeat(levels, np.diff(row, prepend=0)) for row in ends])
