"""A folder of JPEG images: `calmix sweep` of four short runs in two processes beside the same in one.

By the clock, the start of processes included: it takes two idle cores.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.timing import Row

COMMAND = "from calmix.cli import main; main()"


def rows(full: bool = False) -> Iterator[Row]:
    epochs = 30 if full else 8
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        images = make_folder(root / "images", classes=4, train=100, test=25)
        seconds = {}
        for jobs in (1, 2):
            start = time.perf_counter()
            _sweep(root, jobs, epochs)
            seconds[jobs] = time.perf_counter() - start
            yield Row(f"--jobs {jobs}", seconds[jobs], "s")
    yield Row("images trained on, --jobs 2", 4 * epochs * images / seconds[2], "images/s")
    yield Row("one process / two", seconds[1] / seconds[2], "x", at_least=1.6)


def make_folder(folder: Path, *, classes: int, train: int, test: int) -> int:
    """So many images of 160 x 120 of each class; returns the number of those to train on, less validation."""
    draw = np.random.default_rng(0)
    for part, count in (("train", train), ("val", test)):
        for name in range(classes):
            (folder / part / str(name)).mkdir(parents=True)
            for number in range(count):
                small = Image.fromarray(draw.integers(0, 256, (12, 16, 3), dtype=np.uint8))
                path = folder / part / str(name) / f"{number}.jpg"
                small.resize((160, 120), Image.Resampling.BICUBIC).save(path, quality=90)
    return classes * train - 100


def _sweep(root: Path, jobs: int, epochs: int) -> None:
    words = ["sweep", "--dataset", str(root / "images"), "--seeds", "4", "--jobs", str(jobs)]
    words += ["--epochs", str(epochs), "--image-size", "64", "--validation-size", "100"]
    words += ["--batch-size", "50", "--out", str(root / f"runs-{jobs}")]
    subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "CALMIX_CACHE": str(root / "cache")},
    )
