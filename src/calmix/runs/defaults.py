"""Defaults of a recipe for data that no preset knows, derived from their kind and size."""

from typing import Any

import torch

from calmix import data
from calmix.data import DataSet, Kind, kind_of
from calmix.errors import InputError
from calmix.models import NETWORKS
from calmix.runs.recipe import Recipe

STEPS = 3000  # of training, for each stream
MOST_EPOCHS, FEWEST_EPOCHS = 100, 5
LARGEST_VALIDATION = 2500
# AdamW needs rates of its own; the warm-up is a twentieth of the epochs.
ADAMW: dict[str, Any] = {
    "optimiser": "adamw",
    "learning_rate": 1e-3,
    "weight_decay": 0.01,
    "schedule": "cosine",
}
SGD: dict[str, Any] = {
    "optimiser": "sgd",
    "weight_decay": 5e-4,
    "schedule": "one-cycle",
    "warmup_epochs": 0.0,
}


def derived_fields(whole: DataSet, *, network: Any, optimiser: str | None) -> dict[str, Any]:
    """Fields for a data set of the user's own, with a network of the user's own, a built-in one or any.

    About 3,000 steps in batches of up to 64; a fifth of the training part, at most 2,500 examples, for
    validation where no part is given for it. Images are shifted by a sixteenth of their side and not flipped,
    and normalised by their channels' mean and deviation; vectors are standardised. Tokens are trained by
    AdamW, all else by SGD.
    """
    kind, shape = kind_of(whole.train), whole.train.shape
    held_out = min(len(whole.train) // 5, LARGEST_VALIDATION)
    if whole.validation is not None:
        held_out = len(whole.validation)
    left = len(whole.train) - (0 if whole.validation is not None else held_out)
    if held_out < 1 or left < 1:
        raise InputError(f"{whole.name} has {len(whole.train)} training examples: too few to hold some out")
    batch_size = min(64, max(8, left // 16))
    fields: dict[str, Any] = {
        **{"validation_size": held_out, "batch_size": min(batch_size, left), "pad": 0, "flip": False},
        **{"decay_epochs": (), "standardise": kind == "vector", "corruption_size": 500},
    }
    fields["epochs"] = epochs(left, fields["batch_size"])
    fields |= optimiser_fields(optimiser or ("adamw" if kind == "tokens" else "sgd"), fields["epochs"])
    if kind == "image":
        fields["pad"] = min(4, min(shape[1:]) // 16)
    rates = {} if fields["optimiser"] != "sgd" else {"learning_rate": 0.05}
    if network is None or network in NETWORKS:
        return {**fields, **_built_in_network(whole, kind, network), **rates}
    return fields | rates


def epochs(examples: int, batch_size: int) -> int:
    """As many epochs as make 3,000 steps, within bounds."""
    steps = data.steps_per_epoch(examples, batch_size)
    return max(FEWEST_EPOCHS, min(MOST_EPOCHS, round(STEPS / steps)))


def optimiser_fields(optimiser: str, epochs: int) -> dict[str, Any]:
    if optimiser == "adamw":
        return ADAMW | {"warmup_epochs": epochs / 20}
    return SGD | {"optimiser": optimiser}


def describe(recipe: Recipe, whole: DataSet) -> str:
    """What the data are and which defaults they have, in a line."""
    kind = kind_of(whole.train)
    names = ("network", "epochs", "batch_size", "optimiser", "learning_rate", "schedule", "validation_size")
    values = [f"{name}={getattr(recipe, name)}" for name in names]
    values += ["standardise=True"] * recipe.standardise
    shape = "x".join(map(str, whole.train.shape))
    return (
        f"{recipe.dataset}: {len(whole.train):,} training and {len(whole.test):,} test examples "
        f"({kind} {shape}), {len(whole.classes)} classes; {', '.join(values)}"
    )


def _built_in_network(whole: DataSet, kind: Kind, network: str | None) -> dict[str, Any]:
    """A built-in network for the kind of data, with its options."""
    shape = whole.train.shape
    pixels = kind == "image"
    if network is None and (kind == "vector" or (pixels and min(shape[1:]) < 8)):
        network = "mlp"
    elif network is None and pixels:
        network = "small_resnet"
    elif network is None or kind == "tokens":
        raise InputError(
            f"{whole.name} has {kind} examples of shape {shape}, for which there is no built-in network: "
            "pass network='file.py:make'"
        )
    options: dict[str, Any] = {"mlp": {"hidden": 128}, "small_resnet": {"width": _width(shape)}}.get(
        network, {}
    )
    return {"network": network, **options, **(_normalisation(whole) if pixels else {})}


def _width(shape: tuple[int, ...]) -> int:
    return 16 if max(shape[1:], default=0) <= 28 else 32


def _normalisation(whole: DataSet) -> dict[str, Any]:
    """Mean and standard deviation of each channel over (at most 2,000 of) the training images."""
    index = torch.linspace(0, len(whole.train) - 1, min(len(whole.train), 2000)).long()
    pixels = torch.cat([data.as_floats(images) for images in whole.train.read(index.split(500))])
    mean, std = pixels.mean(dim=(0, 2, 3)), pixels.std(dim=(0, 2, 3))
    return {
        "mean": [round(value, 4) for value in mean.tolist()],
        "std": [round(max(value, 1e-3), 4) for value in std.tolist()],
    }
