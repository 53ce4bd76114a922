"""A folder of JPEG images: `calmix sweep` of four short runs in two processes beside the same in one.

Seconds of their epochs by the clock, without the start of processes: it takes two idle cores.
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
from calmix.runs.folder import find_runs

COMMAND = "from calmix.cli import main; main()"


def rows(full: bool = False) -> Iterator[Row]:
    epochs = 20 if full else 5
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        images = make_folder(root / "images", classes=4, train=100, test=25)
        seconds = {}
        for jobs in (1, 2):
            start = time.perf_counter()
            _sweep(root, jobs, epochs)
            yield Row(f"--jobs {jobs}, the whole command", time.perf_counter() - start, "s")
            runs = find_runs((root / f"runs-{jobs}",))
            seconds[jobs] = sum(epoch.seconds for run in runs for epoch in run.history) / jobs
            yield Row("  images trained on", len(runs) * epochs * images / seconds[jobs], "images/s")
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
    words += ["--epochs", str(epochs), "--image-size", "48", "--width", "16", "--validation-size", "100"]
    words += ["--batch-size", "50", "--out", str(root / f"runs-{jobs}")]
    subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=root,  # where it writes its table
        env={**os.environ, "CALMIX_CACHE": str(root / "cache")},
    )
