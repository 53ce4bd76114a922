"""Forecast of training time: from a few real steps of each kind of run on random images, or, for another
machine, from counted operations."""

import dataclasses
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from calmix import data
from calmix.corruptions import SEVERITIES
from calmix.data.catalogue import look_up
from calmix.progress import ignore
from calmix.runs.build import Splits, build_network
from calmix.runs.launch import Machine
from calmix.runs.own import load_data
from calmix.runs.recipe import Recipe
from calmix.runs.trainer import Trainer, validation_interval
from calmix.study.plan import Plan, State, locate_run, run_state

FEW_IMAGES = 8  # are timed first; a whole batch only where these are quick
QUICK_SECONDS = 0.5
STEPS = 3
FORWARD = 1 / 3  # of a training step, whose backward pass costs twice the forward one


@dataclass(frozen=True)
class Sizes:
    """Sizes of a data set that decide the time; `shape` is that of one example. Steps are timed on
    `examples`, or on random ones."""

    train: int
    test: int
    classes: int
    shape: tuple[int, ...]
    examples: data.Examples | None = None


PAPER_SIZES = {
    "cifar10": Sizes(50_000, 10_000, 10, (3, 32, 32)),
    "cifar100": Sizes(50_000, 10_000, 100, (3, 32, 32)),
    "folder": Sizes(1_281_167, 50_000, 1000, (3, 224, 224)),  # ImageNet
}


@dataclass(frozen=True)
class Forecast:
    """State of a run, and the hours that are left of it."""

    state: State
    hours: float


def sizes(recipe: Recipe, data_root: Path | None) -> Sizes:
    """Sizes of a recipe's data set on this machine; of the paper's, also where they are not."""
    own = "dataset" in recipe.digests
    if not own and recipe.dataset in PAPER_SIZES and look_up(recipe.dataset, data_root).state != "present":
        return PAPER_SIZES[recipe.dataset]
    whole = load_data(recipe, data_root)
    counts = len(whole.train), len(whole.test), len(whole.classes)
    return Sizes(*counts, tuple(whole.train.shape), whole.train if own else None)


def forecast(
    plan: Plan, folders: Sequence[Path], data_root: Path | None, *, tflops: float | None = None
) -> dict[Recipe, Forecast]:
    """How far each run of a plan is in `folders`, and the time left: on one thread of this machine, timed,
    or on one of so many sustained TFLOP/s, by counted operations."""
    by_dataset = {recipe.dataset: recipe for recipe in plan}
    size_of = {name: sizes(recipe, data_root) for name, recipe in by_dataset.items()}
    seconds: dict[Recipe, float] = {}  # of a training step for an image, by kind of run
    forecasts = {}
    for recipe, corruptions in plan.items():
        folder = locate_run(recipe, corruptions, folders).folder.parent
        state, left = run_state(recipe, corruptions, folder)
        hours = 0.0
        if state != "finished":
            size, kind = size_of[recipe.dataset], dataclasses.replace(recipe, seed=0, smoothing=0.0)
            if kind not in seconds:
                seconds[kind] = (
                    operations(recipe, size) / (1e12 * tflops) if tflops else time_per_image(recipe, size)
                )
            training, testing = images(recipe, size, len(corruptions))
            hours = seconds[kind] * (left * training + testing) / 3600
        forecasts[recipe] = Forecast(state, hours)
    return forecasts


def images(recipe: Recipe, size: Sizes, corruptions: int) -> tuple[float, float]:
    """Costs of a run's training and of its evaluation, in images of a training step."""
    train = recipe.train_size or size.train - recipe.validation_size
    test = min(recipe.test_size or size.test, size.test)
    corrupted = min(recipe.corruption_size or test, test) * corruptions * len(SEVERITIES)
    forward = FORWARD / recipe.rows_per_image
    samples, few = (recipe.members, recipe.validation_samples) if recipe.ensemble == "mc" else (1, 1)
    interval = validation_interval(recipe, train, recipe.validation_size)
    training = recipe.epochs * (train + few * forward * recipe.validation_size / interval)
    testing = samples * forward * (recipe.validation_size + test + corrupted)
    return recipe.streams * training, recipe.streams * testing


def operations(recipe: Recipe, size: Sizes) -> float:
    """Floating-point operations of a training step for an image: convolutions and matrix products, forward
    and twice as many backward, of every member that sees the image in one stream."""
    shape = _shape(recipe, size)
    with torch.device("meta"):
        network = build_network(recipe, shape, size.classes).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.empty(2, *shape, device="meta"))
    members = recipe.members_per_stream
    return float(counter.get_total_flops()) / 2 / FORWARD * members * recipe.rows_per_image


def time_per_image(recipe: Recipe, size: Sizes) -> float:
    """CPU seconds of a training step for an image, in one stream of the recipe."""
    seconds = _time(recipe, size, FEW_IMAGES, steps=1)
    if seconds * FEW_IMAGES < QUICK_SECONDS and recipe.batch_size > FEW_IMAGES:
        seconds = _time(recipe, size, recipe.batch_size, steps=STEPS)
    return seconds


def _time(recipe: Recipe, size: Sizes, batch: int, steps: int) -> float:
    """Two epochs of a few steps; the second is timed."""
    recipe = recipe.replace(epochs=2, batch_size=batch, shards=1, validation_size=FEW_IMAGES, by_group=False)
    shape = _shape(recipe, size)
    train, few = (_part(size, shape, count) for count in (batch * steps, FEW_IMAGES))
    splits = Splits(train, few, few, torch.arange(FEW_IMAGES), tuple(map(str, range(size.classes))))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            recipe,
            splits,
            Path(folder),
            member=0,
            fabric=Machine(accelerator="cpu").fabric(),
            reporter=ignore,
            save_seconds=1e9,
        )
        trainer.decide(trainer.epoch())
        start = time.process_time()
        trainer.epoch()
        return (time.process_time() - start) / (batch * steps)


def _shape(recipe: Recipe, size: Sizes) -> tuple[int, ...]:
    folder = recipe.dataset == "folder"
    return (3, recipe.image_size, recipe.image_size) if folder else size.shape


def _part(size: Sizes, shape: tuple[int, ...], count: int) -> data.Examples:
    if size.examples is not None:
        return size.examples.take(torch.arange(count) % size.train)
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % size.classes
    if len(shape) == 1:
        return data.Part(torch.randn(count, *shape, generator=draw), labels)
    channels, height, width = shape
    pixels = torch.randint(256, (count, height, width, channels), generator=draw, dtype=torch.uint8)
    return data.Part(pixels, labels)
