"""Blur: defocus, frosted glass, motion, zoom, Gaussian."""

import functools
import math

import cv2
import numpy as np
import numpy.typing as npt
import torch
from scipy import ndimage

from calmix.corruptions.draws import Draws
from calmix.corruptions.pixels import Images, Reals, truncate, truncate_single

STRIP = 32  # pixels of a strip of a zoomed image


def smooth(values: Reals, sigma: float) -> Reals:
    """A Gaussian of `sigma` pixels over axes 1 and 2, edges repeated, cut at four sigma."""
    return ndimage.gaussian_filter(values, sigma, axes=(1, 2), mode="nearest", truncate=4)  # type: ignore[no-any-return]


def gaussian_blur(images: Images, sigma: float) -> Images:
    """A Gaussian of `sigma` pixels, in double precision as in the benchmark."""
    return truncate(smooth(images / 255, sigma) * 255)


def defocus_blur(images: Images, radius: float, softness: float) -> Images:
    """The mean over a disk with a Gaussian-softened rim; edges mirrored without repeating them."""
    kernel = _disk(radius, softness)
    blurred = np.stack([cv2.filter2D(image, -1, kernel) for image in images / 255])
    return truncate(blurred.reshape(images.shape) * 255.0)


@functools.cache
def _disk(radius: float, softness: float) -> npt.NDArray[np.float64]:
    """The benchmark's disk, cropped to its nonzero part.

    From radius 8 on the disk touches the border of its window, which the softening mirrors: the kernel then
    sums to 1.01 and brightens the image. The benchmark's published results include this, so it is kept.
    """
    reach = 8 if radius <= 8 else int(radius)
    line = np.arange(-reach, reach + 1)
    disk = (line**2 + line[:, None] ** 2 <= radius**2).astype(np.float32)
    disk /= disk.sum()
    width = 3 if radius <= 8 else 5
    soft = cv2.GaussianBlur(disk, (width, width), sigmaX=softness)
    used = np.flatnonzero(soft.any(axis=0))
    return soft[used[0] : used[-1] + 1, used[0] : used[-1] + 1].astype(np.float64)


def glass_blur(images: Images, draws: Draws, sigma: float, reach: float, rounds: float) -> Images:
    """Gaussian; `rounds` times every pixel takes the value of one at most `reach` away; Gaussian again."""
    reach = int(reach)
    _, height, width, channels = images.shape
    images = gaussian_blur(images, sigma)
    for _ in range(int(rounds)):
        offsets = draws.integers(-reach, reach, max(0, height - 2 * reach), max(0, width - 2 * reach), 2)
        source = _sources(offsets, reach, height, width)
        images = np.take(images.reshape(-1, channels), source, axis=0).reshape(images.shape)
    return gaussian_blur(images, sigma)


def _sources(offsets: npt.NDArray[np.int8], reach: int, height: int, width: int) -> npt.NDArray[np.int64]:
    """The index in the flattened batch from which each pixel takes its value.

    The benchmark copies pixel by pixel from the last to the first (its swap of two array views is a copy), so
    a pixel may copy one that was copied before: its source is then that one's source. `offsets` (N, height -
    2 reach, width - 2 reach, 2) are dx, dy of the pixels that are copied to.
    """
    pixels = np.arange(len(offsets) * height * width)
    source = pixels.copy()
    copies = np.zeros((len(offsets), height, width), dtype=bool)
    inner = np.s_[:, reach + 1 : height - reach + 1, reach + 1 : width - reach + 1]
    copies[inner] = True
    source.reshape(copies.shape)[inner] += offsets[..., 1].astype(np.int64) * width + offsets[..., 0]
    if reach > 1:
        chained = (source > pixels) & copies.ravel()[source]
        while len(todo := np.flatnonzero(chained)):
            via = source[todo]
            source[todo], chained[todo] = source[via], chained[via]
    return source


def motion_blur(images: Images, draws: Draws, radius: float, sigma: float) -> Images:
    """A streak in a direction within 45 degrees of the horizontal."""
    return streak(images, draws.uniform(-45, 45), radius, sigma)


def streak(images: Images, degrees: npt.NDArray[np.float32], radius: float, sigma: float) -> Images:
    """ImageMagick's motion blur, one direction per image: a one-sided Gaussian mean along a line.

    Tap i = 0..2 ceil(radius) has weight exp(-i² / 2 sigma²) and lies at ceil(i cos a - 1/2) to the right and
    ceil(i sin a - 1/2) below; edges are repeated. The mean is rounded to 16 bits and then truncated to 8.
    """
    taps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(taps**2) / (2 * sigma**2)).astype(np.float32)
    weights /= weights.sum()
    angles = np.radians(degrees.astype(np.float64))[:, None]
    right = np.ceil(taps * np.cos(angles) - 0.5).astype(np.int64)
    down = np.ceil(taps * np.sin(angles) - 0.5).astype(np.int64)
    means = np.empty(images.shape, np.float32)
    # OpenCV filters float32 several times as fast as uint8 with a float kernel.
    for image, mean, x, y in zip(images.astype(np.float32), means, right, down, strict=True):
        left, top = x.min(), y.min()
        kernel = np.zeros((y.max() - top + 1, x.max() - left + 1), np.float32)
        np.add.at(kernel, (y - top, x - left), weights)
        anchor, border = (-int(left), -int(top)), cv2.BORDER_REPLICATE
        mean[:] = cv2.filter2D(image, -1, kernel, anchor=anchor, borderType=border).reshape(mean.shape)
    return ((means * 257 + 0.5).astype(np.uint16) // 257).astype(np.uint8)


def zoom_blur(images: Images, stop: float, step: float) -> Images:
    """The mean of the image and of its zooms by 1, 1 + step, ... below `stop`; the image counts twice.

    A zoom is one matrix for the rows and one for the columns; the matrices of all zooms are concatenated, so
    that two products are enough, cut into strips where an image is wider than one: a zoom moves no pixel far.
    """
    _, height, width, channels = images.shape
    count, down, across = _zooms(height, width, stop, step)
    planes = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32))
    total = planes.clone()
    for image, sums in zip(planes, total, strict=True):
        columns = [image[..., source].reshape(-1, len(matrix)) @ matrix for _, source, matrix in across]
        strips = [part.view(channels, height, count, -1) for part in columns]
        zoomed = strips[0] if len(strips) == 1 else torch.cat(strips, -1)
        for strip, source, matrix in down:
            sums[:, strip] += matrix @ zoomed[:, source].reshape(channels, -1, width)
    mean = total.numpy().transpose(0, 2, 3, 1) / np.float32(count + 1)
    return truncate_single(mean)


Strips = list[tuple[slice, slice, torch.Tensor]]  # of the output, of the input, and the matrix between them


@functools.lru_cache(maxsize=8)
def _zooms(height: int, width: int, stop: float, step: float) -> tuple[int, Strips, Strips]:
    """The number of zooms, and their matrices strip by strip: of the rows (strip, source x zoom), of the
    columns (source, zoom x strip)."""
    factors = np.arange(1, stop, step)
    down = [(to, source, part.permute(1, 2, 0).flatten(1)) for to, source, part in _strips(height, factors)]
    across = [(to, source, part.permute(2, 0, 1).flatten(1)) for to, source, part in _strips(width, factors)]
    return len(factors), down, across


def _strips(length: int, factors: npt.NDArray[np.float64]) -> Strips:
    """Strips of the output, what they need of the input, and the matrices, (zoom, strip, source)."""
    matrices = torch.from_numpy(np.stack([zoom_matrix(length, factor) for factor in factors]))
    strips = []
    for start in range(0, length, STRIP):
        strip = slice(start, min(start + STRIP, length))
        used = matrices[:, strip].any(dim=1).any(dim=0).nonzero()
        source = slice(int(used[0]), int(used[-1]) + 1)
        strips.append((strip, source, matrices[:, strip, source]))
    return strips


@functools.lru_cache(maxsize=8)
def zoom_matrix(length: int, factor: float) -> npt.NDArray[np.float32]:
    """The (length, length) matrix that linearly enlarges the middle of a line by `factor` to the whole line.

    The benchmark crops to a whole number of pixels, enlarges from corner to corner and trims the excess.
    """
    cut = math.ceil(length / factor)
    first = (length - cut) // 2
    enlarged = ndimage.zoom(np.eye(cut), (factor, 1), order=1)
    trim = (len(enlarged) - length) // 2
    matrix = np.zeros((length, length), np.float32)
    matrix[:, first : first + cut] = enlarged[trim : trim + length]
    return matrix
