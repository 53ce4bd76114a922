"""Recipes shrunk to a second, and the ways in which tests train them."""

import dataclasses
from pathlib import Path

import numpy as np

from calmix import launch
from calmix.launch import Machine
from calmix.presets import preset
from calmix.progress import Silence


def tiny(ensemble="single", augment="none", **fields):
    """A recipe on the embedded digits that trains in about half a second."""
    small = {
        "train_size": 80,
        "validation_size": 40,
        "test_size": 50,
        "batch_size": 20,
        "width": 4,
        "epochs": 3,
    }
    recipe = preset("digits", ensemble, augment, scale="smoke", seed=7)
    return dataclasses.replace(recipe, **{**small, **fields})


def trained(recipe, out: Path, *, listener=None, member=None, **machine):
    machine = Machine(accelerator="cpu", **machine)
    return launch.train(recipe, out, listener=listener or Silence(), machine=machine, member=member)


def weights(run):
    """All weights of a finished run, as bytes: equal means bit for bit."""
    return run.model.read_bytes()


class Stop(Exception):
    """Raised by a listener to end training at a chosen moment."""


class StopAt(Silence):
    def __init__(self, calls: int) -> None:
        self.calls = calls

    def step(self, step):
        self.calls -= 1
        if self.calls == 0:
            raise Stop


def mixed_epochs(run):
    """(epochs, members, groups) of a CAMixup run."""
    import json

    return np.array(json.loads(run.mixed.read_text()))
