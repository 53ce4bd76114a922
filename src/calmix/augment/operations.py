"""AugMix's nine operations on batches of 8-bit images, equal to Pillow's.

Images are uint8 (N, C, H, W), and every image has an operation and a strength of its own. Two mechanisms
serve all nine: a table of 256 values per channel (autocontrast, equalize, posterize, solarize), and an affine
map with bilinear interpolation (rotate about the centre; shear and translate from the top left corner). What
the map brings in from outside is black; within half a pixel of the border the border's colour goes on, as in
Pillow.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

OPERATIONS = (
    "autocontrast",
    "equalize",
    "posterize",
    "solarize",
    "rotate",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
)
_FIRST_GEOMETRIC = OPERATIONS.index("rotate")


def apply(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Change image n by OPERATIONS[operation[n]] at level[n] (0 to 10), in the direction sign[n] (+1 or -1).

    Rotate by 3 level degrees and translate by size/3 level/10 pixels (both cut to whole numbers), shear by
    0.03 level, posterize to 4 - int(4 level/10) bits, solarize from 256 - int(256 level/10) on.
    """
    out = torch.empty_like(images)
    for number, table in enumerate((autocontrast, equalize, posterize, solarize)):
        rows = (operation == number).nonzero().squeeze(1)
        chosen = images[rows]
        out[rows] = look_up(chosen, table(chosen, level[rows]))
    rows = (operation >= _FIRST_GEOMETRIC).nonzero().squeeze(1)
    height, width = images.shape[-2:]
    out[rows] = transform(images[rows], affine(operation[rows], level[rows] * sign[rows], height, width))
    return out


def look_up(images: Tensor, table: Tensor) -> Tensor:
    """Replace every value v of image n, channel c by table[n, c, v]."""
    return table.gather(2, images.flatten(2).long()).view(images.shape)


def autocontrast(images: Tensor, level: Tensor) -> Tensor:
    """Table (N, C, 256) that stretches each channel to the whole range; a channel of one value stays."""
    pixels = images.flatten(2)
    low, high = pixels.amin(2, keepdim=True).double(), pixels.amax(2, keepdim=True).double()
    scale = 255.0 / (high - low)
    ramp = torch.arange(256, device=images.device, dtype=torch.float64)
    stretched = (ramp * scale - low * scale).clamp(0, 255)
    return torch.where(high > low, stretched, ramp).to(torch.uint8)


def equalize(images: Tensor, level: Tensor) -> Tensor:
    """Table (N, C, 256) that spreads each channel's values evenly, by Pillow's whole-number arithmetic."""
    pixels = images.flatten(2).long()
    counts = torch.zeros(*pixels.shape[:2], 256, dtype=torch.int32, device=images.device)
    counts.scatter_add_(
        2, pixels, torch.ones((), dtype=torch.int32, device=images.device).expand(pixels.shape)
    )
    last = counts.gather(2, pixels.amax(2, keepdim=True))
    step = (pixels.shape[2] - last) // 255
    below = counts.cumsum(2, dtype=torch.int32) - counts
    ramp = torch.arange(256, device=images.device, dtype=torch.int32)
    spread = ((below + step // 2) // step.clamp(min=1)).clamp(max=255)
    return torch.where(step > 0, spread, ramp).to(torch.uint8)


def posterize(images: Tensor, level: Tensor) -> Tensor:
    """Table (N, C, 256) that keeps the leading bits."""
    dropped = 4 + (4 * level / 10).int()
    ramp = torch.arange(256, device=images.device, dtype=torch.int32)
    table = (ramp >> dropped.view(-1, 1, 1)) << dropped.view(-1, 1, 1)
    return table.to(torch.uint8).expand(-1, images.shape[1], -1)


def solarize(images: Tensor, level: Tensor) -> Tensor:
    """Table (N, C, 256) that inverts what is bright."""
    threshold = 256 - (256 * level / 10).int()
    ramp = torch.arange(256, device=images.device, dtype=torch.int32)
    table = torch.where(ramp < threshold.view(-1, 1, 1), ramp, 255 - ramp)
    return table.to(torch.uint8).expand(-1, images.shape[1], -1)


def affine(operation: Tensor, level: Tensor, height: int, width: int) -> Tensor:
    """The map (N, 2, 3) from a pixel of the result to the place (x, y) it comes from; level is signed."""

    def only(name: str, amount: Tensor) -> Tensor:
        return amount.where(operation == OPERATIONS.index(name), torch.zeros_like(amount))

    angle = only("rotate", (30 * level / 10).trunc()).deg2rad()
    cos, sin = angle.cos(), angle.sin()
    x, y = width / 2, height / 2
    shift_x = x - cos * x + sin * y + only("translate_x", (width / 3 * level / 10).trunc())
    shift_y = y - sin * x - cos * y + only("translate_y", (height / 3 * level / 10).trunc())
    first = torch.stack([cos, only("shear_x", 0.3 * level / 10) - sin, shift_x], dim=1)
    second = torch.stack([sin + only("shear_y", 0.3 * level / 10), cos, shift_y], dim=1)
    return torch.stack([first, second], dim=1)


def transform(images: Tensor, matrix: Tensor) -> Tensor:
    """Look up every pixel of the result where the map says, between four neighbours."""
    height, width = images.shape[-2:]
    y, x = torch.meshgrid(
        torch.arange(height, device=images.device) + 0.5,
        torch.arange(width, device=images.device) + 0.5,
        indexing="ij",
    )
    pixel = torch.stack([x.flatten(), y.flatten(), torch.ones(height * width, device=images.device)])
    size = torch.tensor([[width], [height]], device=images.device)
    source = (matrix @ pixel) / size  # in [0, 1) within the image
    inside = ((source >= 0) & (source < 1)).all(1).view(-1, 1, height, width)
    grid = (2 * source - 1).mT.reshape(-1, height, width, 2)
    found = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return (found * inside + 0.5).to(torch.uint8)
