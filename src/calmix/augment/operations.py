"""AugMix's nine operations on batches of 8-bit images, equal to Pillow's.

Images are uint8 (N, C, H, W), and every image has an operation and a level of its own, 0 to 10. Geometry is
bilinear; what it brings in from outside is black, and within half a pixel of the border the border's colour
goes on, as in Pillow. A turn goes about the centre, shear and shift start at the top left corner; a negative
level turns, shears or shifts the other way.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

OPERATIONS = (
    *("autocontrast", "equalize", "posterize", "solarize"),
    *("translate_x", "translate_y", "rotate", "shear_x", "shear_y"),
)
TRANSLATE_X, TRANSLATE_Y, ROTATE, SHEAR_X, SHEAR_Y = range(4, 9)
# Pillow cuts fractions off; this much more keeps a 128 that came out as 127.9999 from becoming 127.
_ROUNDING = 0.001
# Images of more pixels are sheared row by row, smaller ones sampled together with the rotations: the two
# differ by rounding, so that results of small images stay as they were.
_MANY_PIXELS = 64 * 64


def apply(images: Tensor, operation: Tensor, level: Tensor) -> Tensor:
    """Change image n by OPERATIONS[operation[n]] at level[n]; where operation[n] is len(OPERATIONS) it stays.

    The images are sorted by operation, so that each kind works on one slice of the batch.
    """
    order = operation.argsort()
    images, operation, level = images.index_select(0, order), operation[order], level[order]
    count = torch.bincount(operation, minlength=len(OPERATIONS) + 1).tolist()
    changes = (autocontrast, equalize, posterize, solarize, translate, turn, shear_left, shear_up)
    small = images.shape[2] * images.shape[3] <= _MANY_PIXELS
    turned = [sum(count[ROTATE:-1]), 0, 0] if small else count[ROTATE:-1]
    sizes = [*count[:TRANSLATE_X], sum(count[TRANSLATE_X:ROTATE]), *turned, count[-1]]
    parts = zip(*(torch.split(values, sizes) for values in (images, operation, level)), strict=True)
    for change, (part, kind, at) in zip(changes, parts, strict=False):  # the last part stays
        if len(part):
            part.copy_(change(part, kind, at))
    return images.index_select(0, order.argsort())


def autocontrast(images: Tensor, _: Tensor, level: Tensor) -> Tensor:
    """Stretch each channel to the whole range; a channel of one value stays as it is."""
    low, high = images.amin((2, 3), keepdim=True).float(), images.amax((2, 3), keepdim=True).float()
    flat = high == low
    scale = (255 / (high - low)).where(~flat, 1)
    return images.float().sub_(low.where(~flat, 0)).mul_(scale).add_(_ROUNDING).short()


def equalize(images: Tensor, _: Tensor, level: Tensor) -> Tensor:
    """Spread each channel's values evenly, by Pillow's whole-number arithmetic."""
    pixels = images.flatten(2).long()
    one = torch.ones((), dtype=torch.int32, device=images.device)
    counts = one.new_zeros(*pixels.shape[:2], 256).scatter_add_(2, pixels, one.expand(pixels.shape))
    brightest = counts.gather(2, images.flatten(2).amax(2, keepdim=True).long())
    step = (pixels.shape[2] - brightest) // 255
    below = counts.cumsum(2, dtype=torch.int32).sub_(counts).add_(step // 2)
    ramp = torch.arange(256.0, device=images.device)
    table = torch.where(step > 0, (below / step.clamp(min=1)).clamp_(max=255), ramp)
    return table.byte().gather(2, pixels).view(images.shape)


def posterize(images: Tensor, _: Tensor, level: Tensor) -> Tensor:
    """Keep the leading 4 - int(4 level / 10) bits."""
    lost = (4 * level.abs() / 10).int()
    return images & (256 - (16 << lost)).byte().view(-1, 1, 1, 1)


def solarize(images: Tensor, _: Tensor, level: Tensor) -> Tensor:
    """Invert the values from 256 - int(256 level / 10) on."""
    last_kept = (255 - (256 * level.abs() / 10).int()).byte().view(-1, 1, 1, 1)
    bright = torch.gt(images, last_kept, out=torch.empty_like(images))  # as 0 and 1: faster than as bool
    return images ^ bright.neg_()


def translate(images: Tensor, operation: Tensor, level: Tensor) -> Tensor:
    """Shift the image left, or up, by int(size / 3 level / 10) pixels."""
    count, channels, height, width = images.shape
    left = (width / 3 * level / 10).int().where(operation == TRANSLATE_X, 0)
    up = (height / 3 * level / 10).int().where(operation == TRANSLATE_Y, 0)
    # In memory a shifted channel is a window of as many values that starts elsewhere; what it catches of the
    # neighbouring rows and channels is black.
    size = height * width
    memory = F.pad(images.flatten(), (size, size))
    windows = memory.as_strided((len(memory) - size + 1, size), (1, 1))
    start = torch.arange(1, count * channels + 1, device=images.device) * size
    start = start + (up * width + left).repeat_interleave(channels)
    x = left.view(-1, 1, 1, 1) + torch.arange(width, device=images.device)
    y = up.view(-1, 1, 1, 1) + torch.arange(height, device=images.device).view(-1, 1)
    inside = ((x >= 0) & (x < width)).byte() * ((y >= 0) & (y < height)).byte()
    return windows.index_select(0, start).view(images.shape).mul_(inside)


def turn(images: Tensor, operation: Tensor, level: Tensor) -> Tensor:
    """Rotate anti-clockwise by int(30 level / 10) degrees, or shear left or up by 0.3 level / 10."""
    height, width = images.shape[2:]
    angle = (30 * level / 10).int().where(operation == ROTATE, 0).deg2rad()
    shear = 0.3 * level / 10
    cos, sin = angle.cos(), angle.sin()
    # A pixel at (x, y) comes from (a x + b y + c, d x + e y + f), with x and y counted from the centre.
    a, b = cos, shear.where(operation == SHEAR_X, -sin)
    d, e = shear.where(operation == SHEAR_Y, sin), cos
    c = b.where(operation == SHEAR_X, 0) * height / 2
    f = d.where(operation == SHEAR_Y, 0) * width / 2
    # grid_sample counts in halves of the image: inside is what lies between -1 and 1.
    matrix = torch.stack([a, b * height / width, c * 2 / width, d * width / height, e, f * 2 / height], dim=1)
    along, across, offset = matrix.view(-1, 2, 3, 1, 1).unbind(2)
    x = (2 * torch.arange(width, device=images.device) + 1) / width - 1
    y = (2 * torch.arange(height, device=images.device) + 1) / height - 1
    grid = torch.addcmul(along * x, across, y.unsqueeze(1)).add_(offset)
    sampled = F.grid_sample(
        images.float(), grid.permute(0, 2, 3, 1), padding_mode="border", align_corners=False
    )
    inside = grid.abs_().amax(1, keepdim=True).lt_(1)  # as 0 and 1 in place: faster than as bool
    return sampled.mul_(inside).add_(_ROUNDING).short()  # cut to whole numbers: faster than to bytes


def shear_left(images: Tensor, _: Tensor, level: Tensor) -> Tensor:
    """Shear to the left by 0.3 level / 10: within a row, all pixels move by the same fraction."""
    count, channels, height, width = images.shape
    y = torch.arange(height, device=images.device).view(-1, 1) + 0.5
    x = torch.arange(width, device=images.device) + 0.5
    shift = (0.3 * level / 10).view(-1, 1, 1, 1) * y
    inside = (x + (shift - width / 2)).abs_().lt_(width / 2)
    # A shifted row is a window of the memory, as in `translate`, with one pixel more to interpolate.
    rows = F.pad(images, (1, 1))
    rows[..., 0], rows[..., -1] = rows[..., 1], rows[..., -2]
    size = rows.shape[3]
    memory = F.pad(rows.flatten(), (size, size))
    windows = memory.as_strided((len(memory) - width, width + 1), (1, 1))
    start = torch.arange(1, count * channels * height + 1, device=images.device) * size + 1
    start = start.view(count, channels, height, 1) + shift.floor().clamp(-size, size).long()
    pixels = windows.index_select(0, start.flatten()).view(count, channels, height, width + 1).float()
    sheared = torch.lerp(pixels[..., :-1], pixels[..., 1:], shift - shift.floor())
    return sheared.mul_(inside).add_(_ROUNDING).short()


def shear_up(images: Tensor, operation: Tensor, level: Tensor) -> Tensor:
    """Shear upwards by 0.3 level / 10."""
    return shear_left(images.transpose(2, 3), operation, level).byte().transpose(2, 3)
