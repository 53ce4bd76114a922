"""Forecast of a small study beside the time that it takes, one run after the other.

The runs are a single network and BatchEnsemble under 15 corruptions, on random images in CIFAR-10's
format. By the clock: it takes an idle machine.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data import make_cifar
from benchmarks.timing import Row
from calmix.corruptions import CORRUPTIONS
from calmix.data.corrupted_cache import CACHE_VARIABLE
from calmix.progress import ignore
from calmix.runs.launch import Machine
from calmix.runs.presets import preset
from calmix.sources.cifar import CIFAR10
from calmix.study.executors import SerialExecutor
from calmix.study.forecast import forecast
from calmix.study.plan import run_plan
from calmix.study.tasks import Context


def rows(full: bool = False) -> Iterator[Row]:
    epochs, size = (20, 500) if full else (4, 100)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ[CACHE_VARIABLE] = str(root / "cache")
        make_cifar(root / CIFAR10.folder)
        fields = {"epochs": epochs, "train_size": 1000, "validation_size": 200, "test_size": 1000}
        plan = {
            preset("cifar10", ensemble, "camixup", seed=seed).replace(
                **fields, width=16, corruption_size=size
            ): CORRUPTIONS
            for ensemble in ("single", "batch")
            for seed in range(2 if full else 1)
        }
        runs = root / "runs"
        start = time.perf_counter()
        expected = 3600 * sum(each.hours for each in forecast(plan, [runs], root).values())
        yield Row("making the forecast", time.perf_counter() - start, "s")
        context = Context(runs, root, machine=Machine(accelerator="cpu"))
        start = time.perf_counter()
        errors = run_plan(plan, runs, SerialExecutor(context, ignore), ignore)
        measured = time.perf_counter() - start
        if errors:
            raise RuntimeError(f"a run failed: {errors}")
    yield Row("forecast of the study", expected, "s")
    yield Row("the study", measured, "s")
    off = max(expected, measured) / min(expected, measured)
    yield Row("the larger / the smaller", off, "x", at_most=1.3, before=20)
