"""A whole ensemble: time on two cores until four networks on CIFAR-10 are accurate and calibrated together.

Deep ensembles of four `small_resnet`s with CAMixup by the pool's gap are trained from a cold start in two
processes, until one reaches 85 % accuracy with an ECE of the pool below 1 %, before any temperature. A pool
is less confident than its members, and CAMixup can only lower confidence: half of the images are seen twice
as often, so that members become over-confident. The time is that of the last ensemble by the clock,
evaluation included, the curve that of its members on validation images. It takes some 40 minutes, real data
(CALMIX_DATA), and idle cores. An interrupted run goes on where it stopped; what is finished is kept in the
user's cache, in `benchmarks`: remove it to start again.
"""

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.timing import Row
from calmix import files
from calmix.data.corrupted_cache import cache_folder
from calmix.progress import Display
from calmix.runs.evaluate import evaluate
from calmix.runs.folder import Epoch, Run
from calmix.runs.launch import Machine
from calmix.runs.presets import preset
from calmix.runs.recipe import Recipe
from calmix.study.executors import ProcessExecutor
from calmix.study.plan import run_plan
from calmix.study.tasks import Context

ACCURACY, ECE = 0.85, 0.01
LENGTHS = ((20_000, 70),)  # images and epochs; what others reached is in the log
CURVE_POINTS = 10
GOAL_MINUTES = 60
JOBS = 2


def rows(full: bool = False) -> Iterator[Row | str]:
    out = cache_folder() / "benchmarks"
    yield from search([make_recipe(size, epochs) for size, epochs in LENGTHS], out, None)


def make_recipe(train_size: int | None, epochs: int) -> Recipe:
    return preset("cifar10", "deep", "camixup").replace(
        **{"epochs": epochs, "members": 4, "width": 32, "gap_of": "pool"},
        **{"train_size": train_size, "validation_size": 2500, "test_size": None, "batch_size": 128},
    )


def search(recipes: Sequence[Recipe], out: Path, data_root: Path | None) -> Iterator[Row | str]:
    """Train one after the other until one is good enough; the rows and the curve of each."""
    for recipe in recipes:
        minutes = train(recipe, out, data_root) / 60
        run = Run(out / recipe.name, recipe)
        clean = run.summary.clean
        size = "all images" if recipe.train_size is None else f"{recipe.train_size:,} images"
        yield Row(f"{size}, {recipe.epochs} epochs: accuracy of the pool", 100 * clean.pool.accuracy, "%")
        yield Row("  ECE of the pool", 100 * clean.pool.ece, "%")
        yield Row("  gap of the pool", 100 * clean.pool.gap, "points")
        yield Row("  gap of the members", 100 * statistics.fmean(m.gap for m in clean.members), "points")
        if clean.scaled is not None:
            yield Row("  ECE of the pool at its temperature", 100 * clean.scaled.ece, "%")
        yield Row("  time (wall)", minutes, "minutes")
        yield curve(run.history, minutes)
        if clean.pool.accuracy >= ACCURACY and clean.pool.ece < ECE:
            name = f"until {ACCURACY:.0%} accuracy with an ECE below {ECE:.0%}"
            yield Row(name, minutes, "minutes", at_most=GOAL_MINUTES)
            return
    yield f"None reached {ACCURACY:.0%} accuracy with an ECE below {ECE:.0%}."


def curve(history: Sequence[Epoch], minutes: float) -> str:
    """A table of the members' means on validation images, at up to CURVE_POINTS epochs; training is taken to
    have gone on at one pace."""
    last = max(epoch.epoch for epoch in history)
    shown = [round(last * (k + 1) / CURVE_POINTS) for k in range(CURVE_POINTS)]
    lines = ["| epoch | minutes | accuracy, % | ECE, % | classes mixed, % |", "|---:|---:|---:|---:|---:|"]
    for place in dict.fromkeys(max(1, epoch) for epoch in shown):
        some = [epoch for epoch in history if epoch.epoch == place]
        names = ("accuracy", "ece", "mixed")
        means = [statistics.fmean(getattr(epoch, name) or 0.0 for epoch in some) for name in names]
        cells = [f"{100 * mean:.1f}" for mean in means]
        lines.append(f"| {place} | {minutes * place / last:.1f} | {' | '.join(cells)} |")
    return "\n".join(lines)


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
