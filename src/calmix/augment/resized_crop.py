"""Random resized crop, the standard augmentation of large images, for a batch of equal sizes."""

import torch
from torch import Tensor

from calmix.augment.draws import uniform
from calmix.errors import InputError

_ATTEMPTS = 10


def random_resized_crop(
    images: Tensor,
    size: int,
    *,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    generator: torch.Generator | None = None,
) -> Tensor:
    """Cut a box of random area and shape out of every image and resize it to size x size pixels.

    images (..., C, H, W) -> (..., C, size, size). A box covers a share of the image drawn from `scale`, its
    width over height is log-uniform in `ratio`, and its place is uniform (Szegedy et al., 2015); a shape that
    does not fit is drawn anew, ten times at most, then the largest box of the nearest ratio is taken from the
    centre. The resize is Pillow's bilinear one, which averages where it shrinks.

    >>> random_resized_crop(torch.ones(4, 3, 40, 60), 32).shape
    torch.Size([4, 3, 32, 32])
    """
    if images.ndim < 3:
        raise InputError(f"images have shape {tuple(images.shape)}; give (..., channels, height, width)")
    if not images.is_floating_point():
        raise InputError(f"images are {images.dtype}; give floats, e.g. images / 255")
    if not 0 < scale[0] <= scale[1] <= 1:
        raise InputError(f"scale = {scale}; give shares of the area, 0 < low <= high <= 1")
    if not 0 < ratio[0] <= ratio[1]:
        raise InputError(f"ratio = {ratio}; give width over height, 0 < low <= high")
    if size < 1:
        raise InputError(f"size = {size}; give at least one pixel")
    *leading, channels, height, width = images.shape
    batch = images.reshape(-1, channels, height, width)
    boxes = draw_boxes(len(batch), height, width, scale, ratio, generator).to(images.device)
    return resize(batch, boxes, size).view(*leading, channels, size, size)


def draw_boxes(
    count: int,
    height: int,
    width: int,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    generator: torch.Generator | None,
) -> Tensor:
    """Boxes as whole numbers (count, 4): top, left, height, width."""
    area = uniform(count, _ATTEMPTS, low=scale[0], high=scale[1], generator=generator) * height * width
    low, high = torch.tensor(ratio, device=area.device).log().tolist()
    shape = uniform(count, _ATTEMPTS, low=low, high=high, generator=generator).exp()
    place = uniform(2, count, generator=generator)
    box_height, box_width = (area / shape).sqrt().round(), (area * shape).sqrt().round()
    fits = (box_height >= 1) & (box_height <= height) & (box_width >= 1) & (box_width <= width)
    first = fits.long().argmax(1, keepdim=True)
    box_height, box_width = box_height.gather(1, first).squeeze(1), box_width.gather(1, first).squeeze(1)

    nearest = min(max(width / height, ratio[0]), ratio[1])
    fallback_height = max(1, round(min(height, width / nearest)))
    fallback_width = max(1, round(min(width, height * nearest)))
    any_fits = fits.any(1)
    box_height = box_height.where(any_fits, torch.tensor(float(fallback_height), device=area.device))
    box_width = box_width.where(any_fits, torch.tensor(float(fallback_width), device=area.device))
    place = place.where(any_fits, torch.tensor(0.5, device=area.device))
    top = (place[0] * (height - box_height + 1)).floor()
    left = (place[1] * (width - box_width + 1)).floor()
    return torch.stack([top, left, box_height, box_width], dim=1).long()


def resize(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Each image's own box (N, 4), resized to size x size: one matrix for its rows, one for its columns."""
    top, left, height, width = boxes.unbind(1)
    rows = _triangle(top, height, images.shape[-2], size).to(images.dtype)
    columns = _triangle(left, width, images.shape[-1], size).to(images.dtype)
    return rows.unsqueeze(1) @ images @ columns.unsqueeze(1).mT


def _triangle(start: Tensor, length: Tensor, pixels: int, size: int) -> Tensor:
    """Weights (N, size, pixels) of a triangle filter, widened where an output pixel spans several."""
    step = (length / size).view(-1, 1, 1)
    centre = (torch.arange(size, device=start.device).view(1, -1, 1) + 0.5) * step
    pixel = torch.arange(pixels, device=start.device).view(1, 1, -1) - start.view(-1, 1, 1) + 0.5
    weight = (1 - (pixel - centre).abs() / step.clamp(min=1)).clamp(min=0)
    weight = weight * ((pixel > 0) & (pixel < length.view(-1, 1, 1)))
    return weight / weight.sum(-1, keepdim=True)
