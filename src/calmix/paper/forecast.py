"""How long runs will take: from a few real training steps of each kind on made-up images, or, for a machine
that is not here, from counted operations."""

import dataclasses
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from calmix import data
from calmix.build import Splits, build_network
from calmix.data.catalogue import look_up
from calmix.errors import InputError
from calmix.evaluate import SEVERITIES
from calmix.launch import Machine
from calmix.paper.reproduce import Plan, state
from calmix.paper.tables import Table
from calmix.progress import Silence
from calmix.recipe import Recipe
from calmix.train import train_stream

FEW = 8  # images that are timed first; a whole batch only where these are quick
QUICK = 0.5  # seconds
STEPS = 3
FORWARD = 1 / 3  # of a training step, whose backward pass costs twice the forward one

# What decides the time of a step.
KIND = ("dataset", "network", "depth", "width", "ensemble", "members", "transform", "mixing", "image_size")
BOTH = ("regmixup", "mixupmp")  # train on clean and mixed images together


@dataclass(frozen=True)
class Sizes:
    """A data set as far as time is concerned; `shape` is that of one example."""

    train: int
    test: int
    classes: int
    shape: tuple[int, ...]


KNOWN = {
    "cifar10": Sizes(50_000, 10_000, 10, (3, 32, 32)),
    "cifar100": Sizes(50_000, 10_000, 100, (3, 32, 32)),
    "folder": Sizes(1_281_167, 50_000, 1000, (3, 224, 224)),  # ImageNet
}


def sizes(dataset: str, root: Path | None) -> Sizes:
    """Of a data set that is here; of the paper's, also where they are not."""
    if look_up(dataset, root).state != "present" and dataset in KNOWN:
        return KNOWN[dataset]
    whole = data.load(dataset, root)
    return Sizes(len(whole.train), len(whole.test), len(whole.classes), tuple(whole.train.shape))


def forecast(plan: Plan, out: Path, root: Path | None, *, tflops: float | None = None) -> list[Table]:
    """The runs of a plan, how far each is, and the time that is left; then the same by item."""
    if tflops is not None and not tflops > 0:
        raise InputError(f"--tflops must be above 0, got {tflops}")
    held = {name: sizes(name, root) for name in {recipe.dataset for recipe in plan.runs}}
    measured: dict[tuple[object, ...], float] = {}
    hours: dict[Recipe, float] = {}
    rows: list[tuple[str, ...]] = []
    for recipe, corruptions in plan.runs.items():
        found, left = state(recipe, corruptions, out)
        hours[recipe] = 0.0
        if found != "finished":
            size = held[recipe.dataset]
            kind = tuple(getattr(recipe, name) for name in KIND)
            if kind not in measured:
                measured[kind] = counted(recipe, size) / (1e12 * tflops) if tflops else timed(recipe, size)
            training, testing = images(recipe, size, len(corruptions))
            hours[recipe] = measured[kind] * (left * training + testing) / 3600
        rows.append((recipe.name, found, _hours(hours[recipe])))
    by_item = [(item.name, sum(hours[recipe] for recipe in plan.of(item))) for item in plan.items]
    lines = [(name, _hours(total)) for name, total in by_item]
    lines.append(("together, shared runs once", _hours(sum(hours.values()))))
    machine = f"{tflops:g} TFLOP/s, by counted operations" if tflops else "one thread of this machine, timed"
    return [
        Table("Runs", ("run", "state", "left"), tuple(rows)),
        Table(f"An estimate: what is left on {machine}", ("item", "left"), tuple(lines)),
    ]


def _hours(number: float) -> str:
    return f"{60 * number:.1f} min" if number < 1 else f"{number:,.1f} h"


def images(recipe: Recipe, size: Sizes, corruptions: int) -> tuple[float, float]:
    """How many images a run's training and its evaluation cost, in images of a training step."""
    train = recipe.train_size or size.train - recipe.validation_size
    streams = recipe.members if recipe.ensemble == "deep" else 1
    samples = recipe.members if recipe.ensemble == "mc" else 1
    test = min(recipe.test_size or size.test, size.test)
    corrupted = min(recipe.corruption_size or test, test) * corruptions * len(SEVERITIES)
    forward = FORWARD * samples / seen(recipe)
    training = recipe.epochs * (train + forward * recipe.validation_size)
    return streams * training, streams * forward * (test + corrupted)


def seen(recipe: Recipe) -> int:
    """How often a training step sees an image."""
    return 2 if recipe.mixing in BOTH else 1


def counted(recipe: Recipe, size: Sizes) -> float:
    """Floating-point operations of a training step for an image: convolutions and matrix products, forward
    and twice as much backward, for every member that sees the image in one stream."""
    plain = dataclasses.replace(recipe, ensemble="single", members=1, dropout=0.0)
    shape = _shape(recipe, size)
    network = build_network(plain, shape, size.classes).to("meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.empty(2, *shape, device="meta"))
    members = recipe.members if recipe.ensemble == "batch" else 1
    return float(counter.get_total_flops()) / 2 / FORWARD * members * seen(recipe)


def timed(recipe: Recipe, size: Sizes) -> float:
    """CPU seconds that a training step spends on an image, in one stream of the recipe."""
    found = _time(recipe, size, FEW, steps=1)
    if found * FEW < QUICK and recipe.batch_size > FEW:
        found = _time(recipe, size, recipe.batch_size, steps=STEPS)
    return found


def _time(recipe: Recipe, size: Sizes, batch: int, steps: int) -> float:
    """Two epochs of a few steps; the second is timed."""
    recipe = dataclasses.replace(recipe, epochs=2, batch_size=batch, shards=1, validation_size=FEW)
    shape = _shape(recipe, size)
    train, few = (_made_up(shape, count, size.classes) for count in (batch * steps, FEW))
    names = tuple(map(str, range(size.classes)))
    splits = Splits(train, few, few, torch.arange(FEW), names, None)
    with tempfile.TemporaryDirectory() as folder:
        stream = train_stream(
            recipe,
            splits,
            Path(folder),
            member=0,
            fabric=Machine(accelerator="cpu").fabric(),
            listener=Silence(),
            save_seconds=1e9,
        )
        _, logits = next(stream)
        start = time.process_time()
        stream.send(logits)
        found = (time.process_time() - start) / (batch * steps)
        stream.close()
    return found


def _shape(recipe: Recipe, size: Sizes) -> tuple[int, ...]:
    folder = recipe.dataset == "folder"
    return (3, recipe.image_size, recipe.image_size) if folder else size.shape


def _made_up(shape: tuple[int, ...], count: int, classes: int) -> data.Part:
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % classes
    if len(shape) == 1:
        return data.Part(torch.randn(count, *shape, generator=draw), labels)
    channels, height, width = shape
    pixels = torch.randint(256, (count, height, width, channels), generator=draw, dtype=torch.uint8)
    return data.Part(pixels, labels)
