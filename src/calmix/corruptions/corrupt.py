"""`corrupt`: one corruption of the benchmark, for a batch of images."""

import os
from collections.abc import Callable
from typing import TypeVar

import cv2
import numpy as np
import torch

from calmix.corruptions import blur, colour, digital, noise, weather
from calmix.corruptions.constants import constants, nearest_size
from calmix.corruptions.draws import Draws, block_length
from calmix.corruptions.pixels import Images
from calmix.errors import InputError

Batch = TypeVar("Batch", Images, torch.Tensor)

_FIXED: dict[str, Callable[..., Images]] = {
    "defocus_blur": blur.defocus_blur,
    "zoom_blur": blur.zoom_blur,
    "brightness": colour.brightness,
    "contrast": digital.contrast,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
    "gaussian_blur": blur.gaussian_blur,
    "saturate": colour.saturate,
}
_RANDOM: dict[str, Callable[..., Images]] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "elastic_transform": digital.elastic_transform,
    "speckle_noise": noise.speckle_noise,
    "spatter": weather.spatter,
}
# These look at or add colour; the others treat every channel alike.
_COLOURED = ("snow", "frost", "brightness", "spatter", "saturate")


def corrupt(
    images: Batch,
    name: str,
    severity: int,
    *,
    seed: int = 0,
    start: int = 0,
    size: int | None = None,
    frost_folder: str | os.PathLike[str] | None = None,
) -> Batch:
    """Corrupt uint8 images (N, H, W, 3 or 1) as CIFAR-C, Tiny-ImageNet-C and ImageNet-C were; same shape.

    `start` is the place of images[0] in its set: image i of a set gets the same draws in every batch.
    The constants are those of the nearest official size, or of `size` = 32, 64, 224 or 299. Grey images (one
    channel) go through the types that need colour as three equal channels and come back as their luma.
    Frost takes its photographs from `frost_folder`; `frost_source` says where it looks otherwise.

    Hendrycks and Dietterich (2019), https://arxiv.org/abs/1903.12261

    >>> images = np.full((2, 32, 32, 3), 100, dtype=np.uint8)
    >>> corrupt(images, "brightness", 5)[0, 0, 0].tolist()
    [176, 176, 176]
    >>> both, second = corrupt(images, "fog", 3), corrupt(images[1:], "fog", 3, start=1)
    >>> bool((both[1:] == second).all())
    True
    """
    if isinstance(images, torch.Tensor):
        array = images.cpu().numpy()
        return torch.from_numpy(
            corrupt(array, name, severity, seed=seed, start=start, size=size, frost_folder=frost_folder)
        ).to(images.device)
    _check(images, start)
    _, height, width, channels = images.shape
    values = constants(name, severity, size=nearest_size(height, width) if size is None else size)
    length = block_length(height, width)
    out = np.empty(images.shape, np.uint8)
    stop = -(-(start + len(images)) // length) if len(images) else 0
    for block in range(start // length, stop):
        first, last = max(block * length, start), min((block + 1) * length, start + len(images))
        here = slice(first - start, last - start)
        some = np.ascontiguousarray(images[here])
        if grey := channels == 1 and name in _COLOURED:
            some = np.repeat(some, 3, axis=-1)
        if name in _FIXED:
            some = _FIXED[name](some, *values)
        else:
            rows = slice(first - block * length, last - block * length)
            draws = Draws(seed, name, severity, block=block, length=length, rows=rows)
            extra = (frost_folder,) if name == "frost" else ()
            some = _RANDOM[name](some, draws, *values, *extra)
        out[here] = _luma(some) if grey else some
    return out


def _luma(images: Images) -> Images:
    count, height, width, _ = images.shape
    tall = cv2.cvtColor(images.reshape(count * height, width, 3), cv2.COLOR_RGB2GRAY)
    return tall.reshape(count, height, width, 1).astype(np.uint8, copy=False)


def _check(images: Images, start: int) -> None:
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        found = getattr(images, "dtype", type(images).__name__)
        raise InputError(f"images is {found}; give uint8 values from 0 to 255 as an array or tensor")
    if images.ndim != 4 or images.shape[-1] not in (1, 3):
        raise InputError(f"images has shape {images.shape}; give (N, height, width, 3 or 1)")
    if min(images.shape[1:3]) < 8:
        raise InputError(f"images has shape {images.shape}; the corruptions need at least 8 x 8 pixels")
    if start < 0:
        raise InputError(f"start={start} is negative; give the place of the first image in its set")
