"""Pad, crop, flip: the standard augmentation of small images, for a whole batch at once."""

import torch
from torch import Tensor

from calmix.augment.draws import integers
from calmix.errors import InputError


def crop_flip(
    images: Tensor, pad: int = 4, flip: bool = True, *, generator: torch.Generator | None = None
) -> Tensor:
    """Shift every image by up to `pad` pixels each way, zeros moving in, and mirror about half of them.

    images (..., C, H, W) -> the same shape; each image has an offset and a flip of its own, over all leading
    axes. `flip=False` for what has no mirror image, such as digits; `pad=0` flips only.

    >>> crop_flip(torch.ones(2, 3, 1, 5, 5), pad=0).sum()
    tensor(150.)
    """
    if images.ndim < 3:
        raise InputError(f"images have shape {tuple(images.shape)}; give (..., channels, height, width)")
    if pad < 0:
        raise InputError(f"pad = {pad} would cut the images; give 0 or more pixels")
    channels, height, width = images.shape[-3:]
    count = images.shape[:-3].numel()
    offset = integers(2, count, 1, high=2 * pad + 1, generator=generator).to(images.device).squeeze(2)
    mirrored = integers(count, 1, high=2, generator=generator).to(images.device).squeeze(1) * flip

    # In one row of memory a shifted image is a window of its padded self, so a crop is a single copy. All
    # images lie there, and after them their mirror images, in which left and right change places.
    tall, wide = height + 2 * pad, width + 2 * pad
    size = channels * tall * wide
    sides = 2 if flip else 1
    row = images.new_zeros(sides * count * size + 2 * pad * (wide + 1))
    padded = row[: sides * count * size].view(sides, count, channels, tall, wide)
    inner = padded[..., pad : pad + height, pad : pad + width]
    batch = images.reshape(count, channels, height, width)
    inner[0] = batch
    if flip:
        inner[1] = batch.flip(-1)
    left = torch.where(mirrored == 1, 2 * pad - offset[1], offset[1])
    image = torch.arange(count, device=images.device) + mirrored * count
    windows = row.as_strided((len(row) - size + 1, size), (1, 1))
    crops = windows.index_select(0, image * size + offset[0] * wide + left)
    return crops.view(count, channels, tall, wide)[..., :height, :width].view(images.shape)
