"""Pad, crop, flip: the standard augmentation of small images, for a whole batch at once."""

import torch
import torch.nn.functional as F
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
    batch = F.pad(images.reshape(-1, channels, height, width), (pad, pad, pad, pad))
    offset = integers(2, len(batch), 1, high=2 * pad + 1, generator=generator).to(images.device)
    mirrored = integers(len(batch), 1, high=2, generator=generator).to(images.device)
    row = offset[0] + torch.arange(height, device=images.device)
    column = torch.arange(width, device=images.device)
    if flip:
        column = torch.where(mirrored == 1, width - 1 - column, column)
    place = row.unsqueeze(2) * (width + 2 * pad) + (offset[1] + column).unsqueeze(1)
    place = place.view(-1, 1, height * width).expand(-1, channels, -1)
    return batch.flatten(2).gather(2, place).view(images.shape)
