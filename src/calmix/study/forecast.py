"""Forecast of a study's time: from a few real steps of each kind of run on random images, a few corrupted
images and one evaluation; or, for another machine, from counted operations."""

import dataclasses
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from calmix import data
from calmix.corruptions import SEVERITIES, corrupt
from calmix.predictions import Predictions
from calmix.progress import ignore
from calmix.runs.build import Splits, build_network
from calmix.runs.evaluate import compute_metrics
from calmix.runs.launch import Machine
from calmix.runs.own import load_data
from calmix.runs.recipe import Recipe
from calmix.runs.schedule import validation_interval
from calmix.runs.trainer import Trainer
from calmix.sources.catalogue import look_up
from calmix.study.plan import Plan, State, locate_run, run_state

FEW_IMAGES = 8  # are timed first; a whole batch only where these are quick
QUICK_SECONDS = 0.5
STEPS = 3
CORRUPTED_PIXELS = 1 << 17  # of an image's channels, corrupted to be timed: 128 images of 32 x 32
SCORED_LOGITS = 1 << 22  # scored to be timed
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


PUBLIC_SIZES = {
    "cifar10": Sizes(50_000, 10_000, 10, (3, 32, 32)),
    "cifar100": Sizes(50_000, 10_000, 100, (3, 32, 32)),
    "mnist": Sizes(60_000, 10_000, 10, (1, 28, 28)),
    "fashion-mnist": Sizes(60_000, 10_000, 10, (1, 28, 28)),
    "folder": Sizes(1_281_167, 50_000, 1000, (3, 224, 224)),  # ImageNet
}


@dataclass(frozen=True)
class Forecast:
    """State of a run, and the hours that are left of it."""

    state: State
    hours: float


def sizes(recipe: Recipe, data_root: Path | None) -> Sizes:
    """Sizes of a recipe's data set on this machine; of a public one, also where it is not."""
    own = "dataset" in recipe.digests
    if not own and recipe.dataset in PUBLIC_SIZES and look_up(recipe.dataset, data_root).state != "present":
        return PUBLIC_SIZES[recipe.dataset]
    whole = load_data(recipe, data_root)
    counts = len(whole.train), len(whole.test), len(whole.classes)
    return Sizes(*counts, tuple(whole.train.shape), whole.train if own else None)


def forecast(
    plan: Plan, folders: Sequence[Path], data_root: Path | None, *, tflops: float | None = None
) -> dict[Recipe, Forecast]:
    """How far each run of a plan is in `folders`, and the time left: on one thread of this machine, timed,
    or on one of so many sustained TFLOP/s, by counted operations.

    Timed are the training, the predictions, and the corrupted test sets: their images, which the first run
    makes for all others of the same test set, and their metrics. Of another machine the last two are not
    known.
    """
    size_of: dict[str, Sizes] = {}  # of data sets that have something left to do: others may be absent
    seconds: dict[Recipe, float] = {}  # of a training step for an image, by kind of run
    forecasts = {}
    made: set[tuple[str, int, str]] = set()  # corrupted test sets that an earlier run makes and keeps
    timed_images: dict[tuple[str, tuple[int, ...]], float] = {}
    timed_metrics: dict[tuple[int, int, int], float] = {}
    for recipe, corruptions in plan.items():
        folder = locate_run(recipe, corruptions, folders).folder.parent
        state, left = run_state(recipe, corruptions, folder)
        hours = 0.0
        if state != "finished":
            if recipe.dataset not in size_of:
                size_of[recipe.dataset] = sizes(recipe, data_root)
            size, kind = size_of[recipe.dataset], dataclasses.replace(recipe, seed=0, smoothing=0.0)
            if kind not in seconds:
                seconds[kind] = (
                    operations(recipe, size) / (1e12 * tflops) if tflops else time_per_image(recipe, size)
                )
            training, testing = images(recipe, size, len(corruptions))
            hours = seconds[kind] * (left * training + testing) / 3600
            if corruptions and tflops is None:
                count, shape = corrupted_images(recipe, size), _shape(recipe, size)
                for name in corruptions:
                    if (recipe.dataset, count, name) not in made:
                        if (name, shape) not in timed_images:
                            timed_images[name, shape] = time_to_corrupt(name, shape)
                        hours += timed_images[name, shape] * count * len(SEVERITIES) / 3600
                    if recipe.dataset != "folder":  # images of files are not kept
                        made.add((recipe.dataset, count, name))
                scored = recipe.members, count, size.classes
                if scored not in timed_metrics:
                    timed_metrics[scored] = time_to_score(*scored)
                hours += timed_metrics[scored] * len(corruptions) * len(SEVERITIES) / 3600
        forecasts[recipe] = Forecast(state, hours)
    return forecasts


def images(recipe: Recipe, size: Sizes, corruptions: int) -> tuple[float, float]:
    """Costs of a run's training and of its evaluation, in images of a training step."""
    train = recipe.train_size or size.train - recipe.validation_size
    test = min(recipe.test_size or size.test, size.test)
    corrupted = corrupted_images(recipe, size) * corruptions * len(SEVERITIES)
    forward = FORWARD / recipe.rows_per_image
    samples, few = (recipe.members, recipe.validation_samples) if recipe.ensemble == "mc" else (1, 1)
    interval = validation_interval(recipe, train, recipe.validation_size)
    training = recipe.epochs * (train + few * forward * recipe.validation_size / interval)
    testing = samples * forward * (recipe.validation_size + test + corrupted)
    return recipe.streams * training, recipe.streams * testing


def corrupted_images(recipe: Recipe, size: Sizes) -> int:
    """Images of one corrupted test set."""
    test = min(recipe.test_size or size.test, size.test)
    return min(recipe.corruption_size or test, test)


def time_to_corrupt(name: str, shape: tuple[int, ...]) -> float:
    """CPU seconds of making one corrupted image, at the severity in the middle; 0 where there are none."""
    if len(shape) != 3 or shape[0] not in (1, 3) or min(shape[1:]) < 8:
        return 0.0
    channels, height, width = shape
    count = max(FEW_IMAGES, CORRUPTED_PIXELS // (height * width))
    draw = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (count, height, width, channels), generator=draw, dtype=torch.uint8)
    corrupt(pixels[:1], name, 3, seed=0)  # what is made once is not counted
    start = time.process_time()
    corrupt(pixels, name, 3, seed=0)
    return (time.process_time() - start) / count


def time_to_score(members: int, examples: int, classes: int) -> float:
    """CPU seconds of the metrics of one corrupted test set."""
    draw = torch.Generator().manual_seed(0)
    few = max(2, min(examples, SCORED_LOGITS // (members * classes)))
    logits = 4 * torch.randn(members, few, classes, generator=draw)
    predictions = Predictions(logits, torch.arange(few) % classes)
    start = time.process_time()
    compute_metrics(predictions, temperature=None, members=False)
    # The temperature's metrics, and files written and read, cost about as much again.
    return 2 * (time.process_time() - start) * examples / few


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
