"""A whole ensemble: time on two cores until four networks on CIFAR-10 are accurate and calibrated together.

Deep ensembles of four `small_resnet`s with CAMixup by the pool's gap are trained from a cold start in two
processes, each with more epochs than the one before, until one reaches 85 % accuracy with an ECE of the pool
below 1 %, before any temperature. The time is that of this ensemble by the clock, evaluation included; the
table is the curve. It takes an hour or more, real data (CALMIX_DATA), and idle cores. An interrupted run goes
on where it stopped; what is finished is kept in the user's cache, in `benchmarks`: remove it to start again.
"""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.timing import Row
from calmix import files
from calmix.data.corrupted_cache import cache_folder
from calmix.progress import Display
from calmix.runs.evaluate import evaluate
from calmix.runs.folder import Run
from calmix.runs.launch import Machine
from calmix.runs.presets import preset
from calmix.runs.recipe import Recipe
from calmix.study.executors import ProcessExecutor
from calmix.study.plan import run_plan
from calmix.study.tasks import Context

ACCURACY, ECE = 0.85, 0.01
EPOCHS = (5, 10, 20, 40, 80)
GOAL_MINUTES = 60
JOBS = 2


def rows(full: bool = False) -> Iterator[Row | str]:
    out = cache_folder() / "benchmarks"
    yield from search([make_recipe(epochs) for epochs in EPOCHS], out, None)


def make_recipe(epochs: int) -> Recipe:
    return preset("cifar10", "deep", "camixup").replace(
        **{"epochs": epochs, "members": 4, "width": 32, "gap_of": "pool"},
        **{"train_size": None, "validation_size": 2500, "test_size": None, "batch_size": 128},
    )


def search(recipes: Sequence[Recipe], out: Path, data_root: Path | None) -> Iterator[Row | str]:
    """Train one after the other until one is good enough; a row of each, and the curve as a table."""
    curve = []
    for recipe in recipes:
        minutes = train(recipe, out, data_root) / 60
        scores = Run(out / recipe.name, recipe).summary.clean.pool
        curve.append((recipe.epochs, minutes, scores.accuracy, scores.ece))
        yield Row(f"{recipe.epochs} epochs: accuracy of the pool", 100 * scores.accuracy, "%")
        yield Row("  ECE of the pool", 100 * scores.ece, "%")
        yield Row("  time (wall)", minutes, "minutes")
        if scores.accuracy >= ACCURACY and scores.ece < ECE:
            name = f"until {ACCURACY:.0%} accuracy with an ECE below {ECE:.0%}"
            yield Row(name, minutes, "minutes", at_most=GOAL_MINUTES)
            break
    else:
        yield f"No ensemble of up to {recipes[-1].epochs} epochs was good enough."
    lines = [f"| {e} | {m:.1f} | {100 * a:.2f} | {100 * c:.2f} |" for e, m, a, c in curve]
    yield "\n".join(["| epochs | minutes | accuracy, % | ECE, % |", "|---:|---:|---:|---:|", *lines])


def train(recipe: Recipe, out: Path, data_root: Path | None) -> float:
    """Train and evaluate what is missing; seconds by the clock of this and of earlier, interrupted calls."""
    record = out / f"{recipe.name}.seconds.json"
    spent = float(json.loads(record.read_text())) if record.exists() else 0.0
    out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    context = Context(out, data_root, machine=Machine(accelerator="cpu"))
    try:
        with Display() as display:
            executor = ProcessExecutor(context, display, jobs=JOBS)
            errors = run_plan({recipe: ()}, out, executor, display, jobs=JOBS)
            if errors:
                raise RuntimeError(f"training failed: {errors}")
            evaluate(Run(out / recipe.name, recipe), data_root=data_root)
    finally:
        spent += time.perf_counter() - start
        with files.replacing(record) as file:
            file.write(json.dumps(spent).encode())
    return spent
