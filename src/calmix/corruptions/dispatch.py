"""`corrupt`: one of the corruptions, by name, for a batch of images."""

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
    f.__name__: f
    for f in (
        *(blur.defocus_blur, blur.zoom_blur, blur.gaussian_blur, colour.brightness, colour.saturate),
        *(digital.contrast, digital.pixelate, digital.jpeg_compression),
    )
}
_RANDOM: dict[str, Callable[..., Images]] = {
    f.__name__: f
    for f in (
        *(noise.gaussian_noise, noise.shot_noise, noise.impulse_noise, noise.speckle_noise),
        *(blur.glass_blur, blur.motion_blur, digital.elastic_transform),
        *(weather.snow, weather.frost, weather.fog, weather.spatter),
    )
}
# These use or add colour; the others treat all channels alike.
_NEED_COLOUR = ("snow", "frost", "brightness", "spatter", "saturate")


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
    """Corrupt uint8 images (N, H, W, 3 or 1) as in CIFAR-C, Tiny-ImageNet-C and ImageNet-C; same shape.

    `start` is the index of images[0] in its data set: image i gets the same draws in every batch. The
    constants are those of the nearest official size, or of `size` = 32, 64, 224 or 299. For corruptions that
    need colour, grey images (one channel) become three equal channels, and the result is their luma. Frost
    uses the photographs in `frost_folder`, or the source that `frost_source()` returns.

    Hendrycks and Dietterich (2019), https://arxiv.org/abs/1903.12261

    >>> images = np.full((2, 32, 32, 3), 100, dtype=np.uint8)
    >>> corrupt(images, "brightness", 5)[0, 0, 0].tolist()
    [176, 176, 176]
    >>> both, second = corrupt(images, "fog", 3), corrupt(images[1:], "fog", 3, start=1)
    >>> bool((both[1:] == second).all())
    True
    """
    if isinstance(images, torch.Tensor):
        options = {"seed": seed, "start": start, "size": size, "frost_folder": frost_folder}
        array = corrupt(images.cpu().numpy(), name, severity, **options)  # type: ignore[arg-type]
        return torch.from_numpy(array).to(images.device)
    _check(images, start)
    _, height, width, channels = images.shape
    values = constants(name, severity, size=nearest_size(height, width) if size is None else size)
    length = block_length(height, width)
    out = np.empty(images.shape, np.uint8)
    stop = -(-(start + len(images)) // length) if len(images) else 0
    for block in range(start // length, stop):
        first, last = max(block * length, start), min((block + 1) * length, start + len(images))
        batch_rows = slice(first - start, last - start)
        part = np.ascontiguousarray(images[batch_rows])
        if grey := channels == 1 and name in _NEED_COLOUR:
            part = np.repeat(part, 3, axis=-1)
        if name in _FIXED:
            part = _FIXED[name](part, *values)
        else:
            block_rows = slice(first - block * length, last - block * length)
            draws = Draws(seed, name, severity, block=block, length=length, rows=block_rows)
            extra = (frost_folder,) if name == "frost" else ()
            part = _RANDOM[name](part, draws, *values, *extra)
        if grey:
            luma = cv2.cvtColor(part.reshape(-1, width, 3), cv2.COLOR_RGB2GRAY)
            part = luma.reshape(-1, height, width, 1).astype(np.uint8, copy=False)
        out[batch_rows] = part
    return out


def _check(images: Images, start: int) -> None:
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        kind = getattr(images, "dtype", type(images).__name__)
        raise InputError(f"images must be a uint8 array or tensor, got {kind}")
    if images.ndim != 4 or images.shape[-1] not in (1, 3):
        raise InputError(f"images must have shape (N, height, width, 3 or 1), got {images.shape}")
    if min(images.shape[1:3]) < 8:
        raise InputError(f"images must have at least 8 x 8 pixels, got shape {images.shape}")
    if start < 0:
        raise InputError(f"start must be at least 0, got {start}")
