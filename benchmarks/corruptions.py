"""Corruptions of images of 32 x 32 at severity 3, each type, and all 19 beside the public code.

That is 0.026 CPU seconds per image over the 19 types for hendrycks/robustness, measured once on a 2.8 GHz
Xeon. At 224 x 224 all 19 types beside `imagecorruptions`, image by image, where it is installed (`pip install
scikit-image numba; pip install --no-deps imagecorruptions`), and the types with the least advantage.
"""

import functools
import importlib
import importlib.resources
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from threadpoolctl import threadpool_limits

from benchmarks.timing import Row, cpu_seconds
from calmix.corruptions.constants import ALL_CORRUPTIONS
from calmix.corruptions.dispatch import corrupt

ORIGINAL = 0.026
COUNT, LARGE_COUNT = 2000, 8


def rows(full: bool = False) -> Iterator[Row]:
    cv2.setNumThreads(1)
    images = smooth_images(COUNT, 32)
    with threadpool_limits(1):
        seconds = [_seconds(images, name, repeats=5 if full else 2) for name in ALL_CORRUPTIONS]
        for name, each in zip(ALL_CORRUPTIONS, seconds, strict=True):
            yield Row(name, 1 / each, "images/s", at_least=4000)
        yield Row("all 19 types", 1e3 * sum(seconds), "ms per image", at_most=1.0, before=1.3)
        yield Row("the public code / ours", ORIGINAL / sum(seconds), "x", at_least=15)
        yield Row("CIFAR-10-C at these rates", sum(seconds) * 5 * 10_000 / 60, "CPU minutes", at_most=4)
        yield from _large(full)


def _large(full: bool) -> Iterator[Row]:
    images = smooth_images(LARGE_COUNT, 224)
    ours = [_seconds(images, name, repeats=3 if full else 1) for name in ALL_CORRUPTIONS]
    yield Row("all 19 types at 224 x 224", 1e3 * sum(ours), "ms per image")
    public = _public()
    if public is None:
        return
    theirs = [
        cpu_seconds(functools.partial(public, images[0], corruption_name=name, severity=3), repeats=1)[0]
        for name in ALL_CORRUPTIONS
    ]
    yield Row("imagecorruptions at 224 x 224", 1e3 * sum(theirs), "ms per image")
    yield Row("  relative to ours", sum(theirs) / sum(ours), "x", at_least=5)
    slowest = theirs.index(max(theirs))
    rest = (sum(theirs) - theirs[slowest]) / (sum(ours) - ours[slowest])
    yield Row(f"  without its slowest, {ALL_CORRUPTIONS[slowest]}", rest, "x", at_least=5)
    ratios = {name: b / a for name, a, b in zip(ALL_CORRUPTIONS, ours, theirs, strict=True)}
    for name in sorted(ratios, key=ratios.__getitem__)[: len(ratios) if full else 3]:
        yield Row(f"  {name}", ratios[name], "x")


def _public() -> Callable[..., Any] | None:
    """`corrupt` of imagecorruptions 1.1.2, where it and scikit-image are installed, with the names back that
    it imports from setuptools, NumPy 1 and scikit-image 0.18."""
    package: Any = types.ModuleType("pkg_resources")
    package.resource_filename = lambda _, path: str(importlib.resources.files("imagecorruptions") / path)
    sys.modules.setdefault("pkg_resources", package)
    setattr(np, "float_", np.float64)  # noqa: B010
    try:
        filters: Any = importlib.import_module("skimage.filters")
        public: Any = importlib.import_module("imagecorruptions")
    except ImportError:
        return None

    def gaussian(x: Any, sigma: float, multichannel: bool = False, **options: Any) -> Any:
        return filters.gaussian(x, sigma, channel_axis=-1 if multichannel else None, **options)

    public.corruptions.gaussian = gaussian
    corrupted: Callable[..., Any] = public.corrupt
    return corrupted


def _seconds(images: NDArray[np.uint8], name: str, *, repeats: int) -> float:
    """CPU seconds per image."""
    return cpu_seconds(lambda: corrupt(images, name, 3), repeats=repeats, seconds=2)[0] / len(images)


def smooth_images(count: int, side: int) -> NDArray[np.uint8]:
    noise = np.random.default_rng(0).normal(size=(count, side, side, 3))
    smooth: NDArray[np.float64] = ndimage.gaussian_filter(noise, (0, 2, 2, 0))
    return np.clip(120 + 350 * smooth, 0, 255).astype(np.uint8)
