"""2,000 images of 32 x 32 at severity 3, relative to the 0.026 CPU seconds per image of the original code."""

from collections.abc import Iterator

import cv2
import numpy as np
from scipy import ndimage
from threadpoolctl import threadpool_limits

from benchmarks.timing import Row, cpu_seconds
from calmix.corruptions.constants import ALL_CORRUPTIONS
from calmix.corruptions.dispatch import corrupt

# CPU seconds per image over the 19 types of hendrycks/robustness, measured on a 2.8 GHz Xeon.
ORIGINAL = 0.026
COUNT = 2000


def rows() -> Iterator[Row]:
    cv2.setNumThreads(1)
    noise = np.random.default_rng(0).normal(size=(COUNT, 32, 32, 3))
    smooth = ndimage.gaussian_filter(noise, (0, 2, 2, 0))
    images = np.clip(120 + 350 * smooth, 0, 255).astype(np.uint8)
    with threadpool_limits(1):
        seconds = [
            cpu_seconds(lambda name=name: corrupt(images, name, 3), repeats=3)[0] / COUNT  # type: ignore[misc]
            for name in ALL_CORRUPTIONS
        ]
    for name, each in zip(ALL_CORRUPTIONS, seconds, strict=True):
        yield Row(name, 1 / each, "images/s", at_least=5000)
    yield Row("all 19 types", sum(seconds), "s per image", at_most=ORIGINAL / 15)
    yield Row("speed relative to the original code", ORIGINAL / sum(seconds), "times", at_least=15)
    yield Row("CIFAR-10-C at these rates", sum(seconds) * 5 * 10_000 / 60, "CPU minutes", at_most=4)
