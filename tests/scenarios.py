"""Recipes shrunk to a second, and the ways in which tests train them and run commands."""

import contextlib
import io
from pathlib import Path

import pytest

from calmix.cli import main
from calmix.progress import Progress, ignore
from calmix.runs.launch import Machine, train
from calmix.runs.presets import preset


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
    return preset("digits", ensemble, augment, scale="smoke", seed=7).replace(**{**small, **fields})


def trained(recipe, out: Path, *, reporter=ignore, members=None, **machine):
    machine = Machine(accelerator="cpu", **machine)
    return train(recipe, out, reporter=reporter, machine=machine, members=members)


def weights(run):
    """All weights of a finished run, as bytes: equal means bit for bit."""
    return run.model_path.read_bytes()


class Stop(Exception):
    """Raised by a reporter to end training at a chosen moment."""


class StopAt:
    """A reporter that raises `Stop` at the n-th `Progress` event."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, event):
        if isinstance(event, Progress):
            self.count -= 1
            if self.count == 0:
                raise Stop


def run_command(*words):
    """Exit code, standard output and standard error of `calmix WORDS`, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as exit_info,
    ):
        main([str(word) for word in words])
    return exit_info.value.code, out.getvalue(), err.getvalue()
