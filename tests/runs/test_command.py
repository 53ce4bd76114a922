import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmix.cli.train import parse
from calmix.runs.api import make_recipe
from calmix.runs.command import train_command
from calmix.runs.presets import SCALES, preset
from tests.own import write_code, write_npz

RECIPES = [
    preset("cifar10", "batch", "augmix+camixup", scale="paper", seed=3),
    preset("digits", "deep", "mixup+label-smoothing"),
    preset("digits", "deep", "camixup-by-pool"),
    preset("digits", "mc", "camixup").replace(epochs=2, flip=True),
    preset("digits", "mc", "camixup").replace(gap_of="pool"),
    preset("cifar100", "deep", scale="paper").replace(decay_epochs=(5, 7), smoothing=0.3),
    preset("cifar100", "deep", scale="paper").replace(decay_epochs=()),
    preset("cifar10", "batch", "mixup", scale="paper", paper_code=True),
    preset("digits", "single").replace(width=8, dropout=0.2),
    preset("digits", "single").replace(network="wide_resnet", depth=10, width=1, filterwise=True),
    preset("digits", "single").replace(network="mlp", hidden=8, mean=[0.5], std=[0.25]),
    preset("digits", "batch").replace(train_size=100, test_size=10, corruption_size=5, sign_probability=0.5),
    preset("cifar10", "batch").replace(train_size=None, corruption_size=None),
    preset("digits", "single").replace(precision="bf16-mixed", shards=2, learning_rate=1e-7),
]


def words_of(recipe):
    words = shlex.split(train_command(recipe))
    assert words[:2] == ["calmix", "train"]
    return words[2:]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_the_command_gives_the_recipe_again(recipe):
    _, again = parse(words_of(recipe))
    assert again == recipe
    assert again.name == recipe.name


@given(
    st.sampled_from(("single", "deep", "batch", "mc")),
    st.sampled_from(("none", "mixup", "augmix+camixup-by-pool", "label-smoothing-0.25")),
    st.sampled_from(SCALES),
    st.fixed_dictionaries(
        {},
        optional={
            "seed": st.integers(0, 2**31),
            "alpha": st.floats(0.01, 100),
            "flip": st.booleans(),
            "decay_epochs": st.lists(st.integers(1, 99), max_size=3),
            "train_size": st.one_of(st.none(), st.integers(1, 999)),
            "width": st.integers(1, 32),
        },
    ),
)
@settings(max_examples=10, deadline=None)
def test_every_change_is_in_the_command(ensemble, augment, scale, changes):
    recipe = preset("cifar10", ensemble, augment, scale=scale).replace(**changes)
    assert parse(words_of(recipe))[1] == recipe


def test_a_preset_needs_no_more_words_than_its_choices():
    command = train_command(preset("digits", "deep", "camixup", scale="smoke"))
    assert command == "calmix train --dataset digits --ensemble deep --augment camixup --scale smoke"


def test_a_command_with_a_network_and_data_of_ones_own(tmp_path):
    write_code(tmp_path)
    write_npz(tmp_path / "image.npz")
    recipe = make_recipe(
        network=f"{tmp_path}/nets.py:make",
        network_options={"depth": 2},
        dataset=tmp_path / "image.npz",
        augment=f"augmix+{tmp_path}/mixers.py:make_mixer",
        epochs=3,
    )
    command = train_command(recipe)
    assert parse(shlex.split(command)[2:])[1] == recipe
    assert "--epochs 3" in command
    assert "--batch-size" not in command  # as derived from the data
    (tmp_path / "image.npz").unlink()
    assert "--batch-size 8" in train_command(recipe)
