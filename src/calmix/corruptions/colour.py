"""Brightness and saturation in HSV: value V = max, saturation S = (max - min) / max.

As results are truncated to 8 bits, the last bit of a double can matter (a factor of 1.5 gives whole grey
levels half of the time), so these follow scikit-image's conversions operation by operation.
"""

import numpy as np
import numpy.typing as npt

from calmix.corruptions.pixels import Images, truncate

Plane = npt.NDArray[np.float64]


def brightness(images: Images, amount: float) -> Images:
    """V + amount."""
    hue, saturation, value = _to_hsv(images)
    return _to_rgb(hue, saturation, np.clip(value + amount, 0, 1))


def saturate(images: Images, factor: float, amount: float) -> Images:
    """factor S + amount. Grey pixels have hue 0, so an amount above 0 tints them red."""
    hue, saturation, value = _to_hsv(images)
    return _to_rgb(hue, np.clip(saturation * factor + amount, 0, 1), value)


def _to_hsv(images: Images) -> tuple[Plane, Plane, Plane]:
    """(N, H, W, 3) -> hue in [0, 6), saturation and value in [0, 1], each (N, H, W)."""
    red, green, blue = np.moveaxis(images, -1, 0) / 255
    value = np.maximum(np.maximum(red, green), blue)
    spread = value - np.minimum(np.minimum(red, green), blue)
    divisor = np.where(spread == 0, 1, spread)
    hue = np.where(green == value, 2 + (blue - red) / divisor, (green - blue) / divisor)
    hue = np.where(blue == value, 4 + (red - green) / divisor, hue)
    hue /= 6
    hue += hue < 0
    hue[spread == 0] = 0
    return hue * 6, spread / np.where(value == 0, 1, value), value


def _to_rgb(hue: Plane, saturation: Plane, value: Plane) -> Images:
    sector = np.floor(hue)
    part = hue - sector
    high = truncate(value * 255)
    low = truncate(value * (1 - saturation) * 255)
    falling = truncate(value * (1 - part * saturation) * 255)
    rising = truncate(value * (1 - (1 - part) * saturation) * 255)
    sector = sector.astype(np.uint8)
    red = np.choose(sector, [high, falling, low, low, rising, high])
    green = np.choose(sector, [rising, high, high, falling, low, low])
    blue = np.choose(sector, [low, low, rising, high, high, falling])
    return np.stack([red, green, blue], axis=-1)
