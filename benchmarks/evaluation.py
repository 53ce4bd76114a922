"""Evaluation under corruption of the laptop's deep ensemble of four, beside predicting the same sets alone.

It is making the images, predicting, computing every metric, and writing. The first run of a study makes the
corrupted images; later runs on the same data find them in the cache. With `--full` all 15 types at 5
severities, otherwise every fourth type.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.data import make_cifar
from benchmarks.timing import Row
from calmix.corruptions import CORRUPTIONS, SEVERITIES
from calmix.data.corrupted_cache import CACHE_VARIABLE
from calmix.runs.build import load_splits, subset
from calmix.runs.evaluate import evaluate
from calmix.runs.folder import Run
from calmix.runs.launch import Machine, train
from calmix.runs.predict import predict_logits
from calmix.runs.presets import preset
from calmix.sources.cifar import CIFAR10

IMAGES = 500  # of a set, as the laptop's preset has them


def rows(full: bool = False) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ[CACHE_VARIABLE] = str(root / "cache")
        make_cifar(root / CIFAR10.folder)
        types = CORRUPTIONS[:: 1 if full else 4]
        runs = [_train(root, seed) for seed in (0, 1)]
        seconds = [_evaluate(run, root, types) for run in runs]
        predicting = _predict(runs[1], root, len(types) * len(SEVERITIES))
    sets = f"{len(types) * len(SEVERITIES)} sets of {runs[0].recipe.corruption_size} images"
    yield Row(f"predicting {sets}", predicting, "s")
    yield Row("the whole evaluation, first run of a study", seconds[0] / predicting, "x", at_most=1.3)
    yield Row("the whole evaluation, later runs", seconds[1] / predicting, "x", at_most=1.3)


def _train(root: Path, seed: int) -> Run:
    """The network of the laptop's preset after a step: its speed does not depend on its weights."""
    recipe = preset("cifar10", "deep", "none", seed=seed).replace(
        **{"epochs": 1, "train_size": 64, "batch_size": 32, "validation_size": 100, "test_size": 1000},
        **{"corruption_size": IMAGES},
    )
    run = train(recipe, root / "runs", data_root=root, machine=Machine(accelerator="cpu"))
    evaluate(run, data_root=root)
    return run


def _evaluate(run: Run, root: Path, types: Sequence[str]) -> float:
    start = time.process_time()
    evaluate(run, corruptions=types, data_root=root)
    return time.process_time() - start


def _predict(run: Run, root: Path, sets: int) -> float:
    """CPU seconds of predicting so many sets, from those of four of them."""
    test = load_splits(run.recipe, root).test
    part = test.take(subset(test.labels, run.recipe.corruption_size))
    model = run.model()
    predict_logits(model, part)
    start = time.process_time()
    for _ in range(4):
        predict_logits(model, part)
    return (time.process_time() - start) * sets / 4
