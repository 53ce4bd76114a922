"""Weather: snow, frost, fog, spatter."""

import os

import cv2
import numpy as np
import numpy.typing as npt

from calmix.corruptions.blur import smooth, streak, zoom_matrix
from calmix.corruptions.draws import Draws
from calmix.corruptions.frost import frost_crops
from calmix.corruptions.pixels import Images, Reals, truncate

WATER = np.array([175, 238, 238], np.float32)
MUD = np.array([63, 42, 20], np.float32)
LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def snow(
    images: Images,
    draws: Draws,
    mean: float,
    scale: float,
    zoom: float,
    threshold: float,
    radius: float,
    sigma: float,
    keep: float,
) -> Images:
    """The whitened image, plus streaks of bright noise and the same streaks rotated by 180 degrees."""
    height, width = images.shape[1:3]
    layer = zoom_matrix(height, zoom) @ draws.normal(mean, scale, height, width) @ zoom_matrix(width, zoom).T
    layer[layer < threshold] = 0
    flakes = streak(truncate(layer * 255)[..., None], draws.uniform(-135, -45), radius, sigma)
    whiter = np.maximum(images, (images @ LUMA * 1.5 + 127.5)[..., None])
    whitened = np.float32(keep) * images + np.float32(1 - keep) * whiter
    return truncate(whitened + flakes + flakes[:, ::-1, ::-1].astype(np.float32))


def frost(
    images: Images,
    draws: Draws,
    keep: float,
    add: float,
    scale: float,
    folder: str | os.PathLike[str] | None = None,
) -> Images:
    """keep x + add times a crop of a frost texture at `scale`."""
    return truncate(keep * images + add * frost_crops(draws, scale, folder, *images.shape[1:3]))


def fog(images: Images, draws: Draws, amount: float, decay: float) -> Images:
    """The image plus `amount` of a cloud, rescaled to the image's maximum."""
    height, width = images.shape[1:3]
    clouds = _plasma(draws, max(height, width), decay)[:, :height, :width, None]
    peak = images.max(axis=(1, 2, 3), keepdims=True) / np.float32(255)
    return truncate((images + np.float32(255 * amount) * clouds) * (peak / (peak + np.float32(amount))))


def _plasma(draws: Draws, side: int, decay: float) -> Reals:
    """Clouds in [0, 1] by diamond-square on a torus whose side is the next power of two.

    At each level a new point is the mean of its four neighbours plus U(-w², w²); w starts at 100 and is
    divided by `decay` from level to level.
    """

    def add_shifted(values: Reals, axis: int, shift: int) -> Reals:
        return values + np.roll(values, shift, axis)

    step = 1 << (side - 1).bit_length()
    wobble = draws.uniform(-1, 1, step, step)
    clouds = np.zeros_like(wobble)
    spread = 100.0
    while step >= 2:
        half = step // 2
        corners, centres = np.s_[:, ::step, ::step], np.s_[:, half::step, half::step]
        around = add_shifted(add_shifted(clouds[corners], 1, -1), 2, -1)
        clouds[centres] = around / 4 + spread**2 * wobble[centres]
        for edges, axis in ((np.s_[:, ::step, half::step], 2), (np.s_[:, half::step, ::step], 1)):
            around = add_shifted(clouds[corners], axis, -1) + add_shifted(clouds[centres], 3 - axis, 1)
            clouds[edges] = around / 4 + spread**2 * wobble[edges]
        step, spread = half, spread / decay
    clouds -= clouds.min(axis=(1, 2), keepdims=True)
    clouds /= clouds.max(axis=(1, 2), keepdims=True)
    return clouds


def spatter(
    images: Images,
    draws: Draws,
    mean: float,
    scale: float,
    sigma: float,
    threshold: float,
    amount: float,
    mud: float,
) -> Images:
    """Drops of water with highlights, or patches of mud."""
    layer = smooth(draws.normal(mean, scale, *images.shape[1:3]), sigma)
    if mud:
        mask = smooth((layer > threshold).astype(np.float32), amount)[..., None]
        mask[mask < 0.8] = 0
        return truncate(images * (1 - mask) + mask * MUD)
    layer[layer < threshold] = 0
    drops = truncate(layer * 255)
    light = drops * np.stack([_glint(drop) for drop in drops])
    peak = light.max(axis=(1, 2), keepdims=True)
    share = np.divide(light, peak, where=peak > 0, out=np.zeros_like(light))
    return truncate(images + np.float32(amount) * share[..., None] * WATER)


_EMBOSS = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], np.float32)


def _glint(drop: Images) -> npt.NDArray[np.float32]:
    """Brightness of the highlight of each pixel of the drops (height, width), by the distance from edges."""
    distance = cv2.distanceTransform(255 - cv2.Canny(drop, 50, 150), cv2.DIST_L2, 5)
    distance = cv2.blur(np.minimum(distance, 20), (3, 3)).astype(np.uint8)
    raised = cv2.filter2D(cv2.equalizeHist(distance), cv2.CV_8U, _EMBOSS)
    return cv2.blur(raised, (3, 3)).astype(np.float32)
