import dataclasses
import shlex

import pytest

from calmix.cli.train import parse
from calmix.presets import preset
from calmix.report.command import train_command


@pytest.mark.parametrize(
    "recipe",
    [
        preset("cifar10", "batch", "augmix+camixup", scale="paper", seed=3),
        preset("digits", "deep", "mixup+label-smoothing"),
        dataclasses.replace(preset("digits", "mc", "camixup"), epochs=2, gap_of="pool", flip=True),
        dataclasses.replace(preset("cifar100", "deep", scale="paper"), decay_epochs=(5, 7), smoothing=0.3),
        preset("cifar10", "batch", "mixup", scale="paper", paper_code=True),
    ],
)
def test_the_command_makes_the_recipe_again(recipe):
    words = shlex.split(train_command(recipe))
    assert words[:2] == ["calmix", "train"]
    assert parse(words[2:]).recipe == recipe
