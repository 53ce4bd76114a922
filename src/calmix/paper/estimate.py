"""How long runs will take, from a few real training steps of each kind on made-up images."""

import dataclasses
import tempfile
import time
from pathlib import Path

import torch

from calmix import data
from calmix.build import Splits
from calmix.evaluate import SEVERITIES
from calmix.launch import Machine
from calmix.progress import Silence
from calmix.recipe import Recipe
from calmix.train import train_stream

FEW = 8  # images that are timed first; a whole batch only where these are quick
QUICK = 0.5  # seconds
STEPS = 3
FORWARD = 1 / 3  # of a training step, whose backward pass costs twice the forward one

# What decides the time of a step.
KIND = ("network", "depth", "width", "ensemble", "transform", "mixing", "consistency", "image_size")


def kind(recipe: Recipe) -> tuple[object, ...]:
    """Recipes of one kind take the same time for an image."""
    return tuple(getattr(recipe, name) for name in KIND)


def seconds(recipe: Recipe, per_image: float, whole: data.DataSet, corruptions: int) -> float:
    """CPU seconds of a whole run, its members one after the other, evaluation included."""
    train = recipe.train_size or len(whole.train) - recipe.validation_size
    streams = recipe.members if recipe.ensemble == "deep" else 1
    samples = recipe.members if recipe.ensemble == "mc" else 1
    test = recipe.test_size or len(whole.test)
    corrupted = min(recipe.corruption_size or test, test) * corruptions * len(SEVERITIES)
    training = recipe.epochs * (train + FORWARD * samples * recipe.validation_size)
    return streams * per_image * (training + FORWARD * samples * (test + corrupted))


def per_image(recipe: Recipe, whole: data.DataSet) -> float:
    """CPU seconds that a training step spends on an image, for one stream of the recipe."""
    found = _time(recipe, whole, FEW, steps=1)
    if found * FEW < QUICK and recipe.batch_size > FEW:
        found = _time(recipe, whole, recipe.batch_size, steps=STEPS)
    return found


def _time(recipe: Recipe, whole: data.DataSet, batch: int, steps: int) -> float:
    """Two epochs of a few steps; the second is timed."""
    fields = {"epochs": 2, "batch_size": batch, "shards": 1, "schedule": "one-cycle", "validation_size": FEW}
    recipe = dataclasses.replace(recipe, **fields)  # type: ignore[arg-type]
    shape = _shape(recipe, whole)
    train, few = (_made_up(shape, count, len(whole.classes)) for count in (batch * steps, FEW))
    splits = Splits(train, few, few, torch.arange(FEW), whole.classes, whole.group_names)
    fabric = Machine(accelerator="cpu").fabric()
    with tempfile.TemporaryDirectory() as folder:
        stream = train_stream(
            recipe, splits, Path(folder), member=0, fabric=fabric, listener=Silence(), save_seconds=1e9
        )
        _, logits = next(stream)
        start = time.process_time()
        stream.send(logits)
        found = (time.process_time() - start) / (batch * steps)
        stream.close()
    return found


def _shape(recipe: Recipe, whole: data.DataSet) -> tuple[int, ...]:
    if recipe.dataset == "folder":
        return (3, recipe.image_size, recipe.image_size)
    return tuple(whole.train.shape)


def _made_up(shape: tuple[int, ...], count: int, classes: int) -> data.Part:
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % classes
    if len(shape) == 1:
        return data.Part(torch.randn(count, *shape, generator=draw), labels)
    channels, height, width = shape
    pixels = torch.randint(256, (count, height, width, channels), generator=draw, dtype=torch.uint8)
    return data.Part(pixels, labels)
