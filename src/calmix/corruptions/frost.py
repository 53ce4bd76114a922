"""Frost textures: the benchmark's photographs if they are available, or else a procedural texture.

The author of the photographs is unknown, so calmix does not include them. They are read from a given folder,
from the one in the environment variable CALMIX_FROST, or from an installed `imagecorruptions` package.
"""

import functools
import hashlib
import importlib.util
import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from scipy import fft

from calmix.corruptions.draws import Draws
from calmix.corruptions.pixels import Images, Reals
from calmix.errors import InputError

# File names and the first digits of their SHA-256; frost2 and frost3 are the same picture.
PHOTOGRAPHS = {
    "frost1.png": "ff9f9078",
    "frost2.png": "fe211a89",
    "frost3.png": "2d0d50b4",
    "frost4.jpg": "3f8b91ca",
    "frost5.jpg": "5fc6a19d",
}
# Statistics of each photograph, at a fifth of its size and at full size: mean colour, standard deviation of
# the mean between crops and of the values within a crop, and the exponent of the power spectrum,
# 1 / f^exponent.
_SMALL = (
    ((79, 149, 165), 12.6, 15.7, 1.23),
    *[((199, 203, 213), 8.5, 17.9, 0.82)] * 2,
    ((144, 158, 171), 9.1, 26.2, 0.42),
    ((103, 114, 126), 16.2, 34.1, 1.10),
)
_FULL = (
    ((77, 147, 163), 8.4, 17.1, 1.58),
    *[((198, 202, 211), 6.7, 20.3, 1.96)] * 2,
    ((147, 161, 174), 6.3, 26.3, 1.55),
    ((102, 113, 125), 12.5, 35.4, 1.86),
)


def frost_source(folder: str | os.PathLike[str] | None = None) -> str:
    """The source of frost textures: `photographs in <folder>` or `procedural texture`."""
    photographs = _find_photographs(folder)
    return "procedural texture" if photographs is None else f"photographs in {photographs}"


def frost_crops(
    draws: Draws, scale: float, folder: str | os.PathLike[str] | None, height: int, width: int
) -> npt.NDArray[Any]:
    """A random crop of a random texture for each image: (N, height, width, 3)."""
    which = draws.integers(0, len(PHOTOGRAPHS))
    photographs = _find_photographs(folder)
    if photographs is None:
        return _procedural(draws, which, height, width, scale)
    offsets = draws.uniform(0, 1, 2)
    crops = np.empty((len(which), height, width, 3), np.uint8)
    for crop, index, (down, right) in zip(crops, which, offsets, strict=True):
        texture = _texture(photographs, int(index), scale, height, width)
        top = int(down * (texture.shape[0] - height))
        left = int(right * (texture.shape[1] - width))
        crop[:] = texture[top : top + height, left : left + width]
    return crops


def _procedural(draws: Draws, which: npt.NDArray[Any], height: int, width: int, scale: float) -> Reals:
    """Noise with the colour, contrast and spectrum of the photographs."""
    table = _SMALL if scale < 0.5 else _FULL
    columns = zip(*table, strict=True)
    colour, between, within, slope = (np.array(column, np.float32)[which] for column in columns)
    shape = (-1, 1, 1)
    frequency = np.hypot(fft.fftfreq(height)[:, None], fft.rfftfreq(width)).astype(np.float32)
    frequency[0, 0] = np.inf
    spectrum = fft.rfft2(draws.normal(0, 1, height, width)) * frequency ** (-slope.reshape(shape) / 2)
    field = fft.irfft2(spectrum, s=(height, width))
    field *= (within / field.std(axis=(1, 2))).reshape(shape)
    field += (between * draws.normal(0, 1)).reshape(shape)
    return np.clip(colour[:, None, None] + field[..., None], 0, 255)  # type: ignore[no-any-return]


def _find_photographs(folder: str | os.PathLike[str] | None) -> Path | None:
    """The folder of photographs: a requested one must be valid, the installed package's is used if it is."""
    requested = folder or os.environ.get("CALMIX_FROST")
    if requested:
        if problem := _problem(Path(requested)):
            raise InputError(problem)
        return Path(requested)
    spec = importlib.util.find_spec("imagecorruptions")
    folders = [Path(path) / "frost" for path in (spec and spec.submodule_search_locations) or ()]
    return next((path for path in folders if _problem(path) is None), None)


def _problem(folder: Path) -> str | None:
    """Why a folder does not have the benchmark's photographs, or None."""
    for name, digest in PHOTOGRAPHS.items():
        path = folder / name
        if not path.is_file():
            return f"{path} does not exist; a folder of frost photographs has {', '.join(PHOTOGRAPHS)}"
        actual = _sha256(path, path.stat().st_mtime_ns)[: len(digest)]
        if actual != digest:
            return f"{path} is another file: expected SHA-256 {digest}..., got {actual}...; copy it again"
    return None


@functools.lru_cache(maxsize=16)
def _sha256(path: Path, mtime: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@functools.lru_cache(maxsize=16)
def _texture(folder: Path, index: int, scale: float, height: int, width: int) -> Images:
    """One photograph at `scale`, or larger where it would not cover the image."""
    picture = cv2.imread(str(folder / list(PHOTOGRAPHS)[index]))
    assert picture is not None
    scale = max(scale, (height + 1) / picture.shape[0], (width + 1) / picture.shape[1])
    if scale != 1:
        picture = cv2.resize(picture, (0, 0), fx=scale, fy=scale)
    return np.ascontiguousarray(picture[..., ::-1])
