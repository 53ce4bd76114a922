import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix import InputError
from calmix.models import NETWORKS
from calmix.runs.augmentation import MIXINGS
from calmix.runs.folder import read_recipe
from calmix.runs.recipe import ENSEMBLES, LATER, Recipe

# Another valid value of every field, and what it needs besides.
OTHER = {
    "dataset": "cifar10",
    "scale": "smoke",
    "seed": 1,
    "train_size": 100,
    "validation_size": 100,
    "train_on_validation": True,
    "test_size": 100,
    "corruption_size": 100,
    "image_size": 64,
    "network": "mlp",
    "network_options": {"width": 8},
    "ensemble": "deep",
    "members": 2,
    "init_std": 0.75,
    "sign_probability": 0.5,
    "member_norm": True,
    "pad": 2,
    "flip": False,
    "transform": "augmix",
    "severity": 1.0,
    "augmix_alpha": 0.5,
    "augmix_clean_first": True,
    "consistency": 12.0,
    "mixing": "mixup",
    "alpha": 0.5,
    "gap_of": "pool",
    "partner": "reversed",
    "fold": True,
    "forgetting_rule": "pair",
    "smoothing": 0.1,
    "by_group": True,
    "margin": 0.02,
    "momentum": 0.5,
    "mixing_epochs": 3,
    "epochs": 3,
    "batch_size": 64,
    "learning_rate": 0.2,
    "weight_decay": 0.0,
    "schedule": "one-cycle",
    "warmup_epochs": 0.0,
    "decay_epochs": (3,),
    "decay_ratio": 0.1,
    "shards": 2,
    "precision": "bf16-mixed",
    "validation_samples": 1,
    "optimiser": "adamw",
    "share": ("*.gamma",),
    "standardise": True,
    "mix_after": "embedding",
    "digests": {"dataset": "0" * 64},
    "paths": {"dataset": "/data/mine.npz"},
    "loader_digest": "0" * 64,
}
PROVENANCE = ("scale", "paths", "loader_digest")  # where a recipe comes from changes no numbers
NEEDS = {
    "members": {"ensemble": "deep"},
    "consistency": {"transform": "augmix"},
    "gap_of": {"mixing": "camixup"},
    "margin": {"mixing": "camixup"},
    "momentum": {"mixing": "camixup"},
    "mixing_epochs": {"mixing": "mixup"},
    "share": {"ensemble": "batch"},
}


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Recipe)])
def test_the_name_depends_on_every_field_but_provenance(name):
    base = Recipe(**NEEDS.get(name, {}))
    other = base.replace(**{name: OTHER[name]})
    assert getattr(other, name) != getattr(base, name)
    assert (other.name == base.name) == (name in PROVENANCE)
    assert (other == base) == (name in PROVENANCE)


EVIDENCE = sorted((Path(__file__).parents[2] / "docs" / "results" / "evidence").glob("*/recipe.json"))


@pytest.mark.parametrize("path", EVIDENCE, ids=lambda path: path.parent.name)
def test_runs_of_earlier_versions_keep_their_names(path):
    """Fields that came later are part of a name only where they have another value than their default."""
    assert read_recipe(path).name == path.parent.name


def test_there_are_runs_of_earlier_versions():
    assert EVIDENCE


def test_later_fields_are_known_by_their_defaults():
    defaults = {name: getattr(Recipe(), name) for name in LATER}
    assert defaults == LATER
    assert LATER.keys() - {"digests"} <= Recipe().flat().keys()


def test_what_is_the_users_own_needs_a_digest():
    for field, value in (("network", "nets.py:make"), ("mixing", "mixers.py:make")):
        with pytest.raises(
            InputError, match=f"{field} {value!r} is of your own, and the recipe has no digest"
        ):
            Recipe(**{field: value})
    with pytest.raises(InputError, match=r"unknown dataset 'mine\.npz'"):
        Recipe(dataset="mine.npz")
    own = Recipe(network="nets.py:make", digests={"network": "0" * 64}, paths={"network": "/x/nets.py"})
    assert own.code("network").path == "/x/nets.py"
    assert own.replace(network="mlp").digests == {}
    with pytest.raises(InputError, match="unknown digest 'netwrok'"):
        Recipe(digests={"netwrok": "0"})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mixing": "camixup", "margin": 1.0}, "margin must be at least 0 and below 1, got 1.0"),
        ({"mixing": "mixup", "momentum": 0.5}, "momentum is for CAMixup, not for mixing 'mixup'"),
        ({"mixing_epochs": 3}, "mixing_epochs says how long to mix: choose a mixing"),
    ],
)
def test_later_fields_are_checked(fields, message):
    with pytest.raises(InputError, match=message):
        Recipe(**fields)


def test_the_scale_tells_no_two_recipes_apart():
    laptop, smoke = Recipe(scale="laptop"), Recipe(scale="smoke")
    assert len({laptop, smoke}) == 1
    assert {laptop: "runs"}[smoke] == "runs"


def test_a_name_is_readable():
    name = Recipe(ensemble="deep", members=4, mixing="camixup", gap_of="pool", seed=3).name
    assert name.startswith("digits-deep-camixup-by-pool-seed3-")
    assert len(name.rsplit("-", 1)[1]) == 10


def test_json_gives_the_same_recipe_back():
    recipe = Recipe(
        dataset="cifar10",
        decay_epochs=(60, 120),
        test_size=7,
        sign_probability=0.5,
        network_options={"mean": (0.1, 0.2, 0.3), "width": 8},
    )
    again = Recipe.from_json(json.loads(recipe.to_json()))
    assert again == recipe
    assert again.name == recipe.name


@given(
    st.sampled_from(list(ENSEMBLES)),
    st.sampled_from(list(MIXINGS)),
    st.floats(0, 1, exclude_max=True),
    st.floats(1e-6, 1e6),
    st.lists(st.integers(1, 1000)),
    st.one_of(st.none(), st.integers(1, 10**6)),
)
def test_every_recipe_is_read_back(ensemble, mixing, smoothing, rate, decay_epochs, size):
    recipe = Recipe(
        ensemble=ensemble,
        mixing=mixing,
        smoothing=smoothing,
        learning_rate=rate,
        decay_epochs=tuple(decay_epochs),
        train_size=size,
        network_options={"dropout": 0.1},
    )
    again = Recipe.from_json(json.loads(recipe.to_json()))
    assert (again, again.name) == (recipe, recipe.name)


def test_equal_recipes_have_equal_names_however_they_are_written():
    """A name that JSON would change is a run that `calmix train --recipe` trains a second time."""
    written = Recipe(alpha=1, learning_rate=1, decay_epochs=[3], network_options={"mean": (0.5,)})
    plain = Recipe(alpha=1.0, learning_rate=1.0, decay_epochs=(3,), network_options={"mean": [0.5]})
    assert written == plain
    assert written.name == plain.name
    assert Recipe.from_json({"alpha": 1, "learning_rate": 1, "decay_epochs": [3], "mean": [0.5]}) == plain


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'epochs'"):
        Recipe.from_json({"epoch": 3})
    with pytest.raises(InputError, match="did you mean 'epochs'"):
        Recipe().replace(epoch=3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epochs": "ten"}, "epochs must be a whole number, got 'ten'"),
        ({"epochs": 1.5}, "epochs must be a whole number, got 1.5"),
        ({"epochs": True}, "epochs must be a whole number, got True"),
        ({"alpha": "1"}, "alpha must be a number"),
        ({"alpha": None}, "alpha must be above 0"),
        ({"flip": "no"}, "flip must be true or false"),
        ({"dataset": 5}, "dataset must be a string"),
        ({"network_options": 3}, "network_options must be"),
        ({"network_options": {}, "train_size": "all"}, "train_size must be a whole number"),
        ({"decay_epochs": ["a"]}, r"decay_epochs\[0\] must be a whole number"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(fields, message):
    with pytest.raises(InputError, match=message):
        Recipe.from_json(fields)
    with pytest.raises(InputError, match=message):
        Recipe(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"train_size": 0}, "train_size must be at least 1"),
        ({"test_size": 0}, "test_size must be at least 1"),
        ({"corruption_size": -1}, "corruption_size must be at least 1"),
        ({"validation_size": 0}, "validation_size must be at least 1"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
        ({"weight_decay": math.nan}, "weight_decay must be at least 0"),
        ({"decay_ratio": math.nan}, "decay_ratio must be at least 0"),
        ({"init_std": -0.1}, "init_std must be at least 0"),
        ({"sign_probability": 1.5}, r"sign_probability must lie in \[0, 1\]"),
        ({"decay_epochs": (-3,)}, "decay_epochs must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"learning_rate": math.inf}, "learning_rate must be finite"),
        ({"alpha": math.nan}, "alpha must be above 0"),
        ({"smoothing": 1.0}, "smoothing must be at least 0 and below 1"),
        ({"dataset": "cifar"}, "did you mean 'cifar10'"),
        ({"network": "resnet5"}, "did you mean 'resnet50'"),
        ({"partner": "reverse"}, "did you mean 'reversed'"),
        ({"schedule": "onecycle"}, "did you mean 'one-cycle'"),
        ({"forgetting_rule": "pairs"}, "did you mean 'pair'"),
        ({"ensemble": "mc"}, "needs dropout above 0"),
        ({"ensemble": "mc", "network_options": {"dropout": 0.0}}, "needs dropout above 0"),
        ({"members": 4}, "did you mean 'deep'"),
        ({"consistency": 12.0}, "add augmix"),
        ({"train_on_validation": True, "mixing": "camixup"}, "validation images that it was not trained on"),
        ({"gap_of": "pool", "mixing": "mixup"}, "is for CAMixup"),
        ({"network_options": {"norm": object}}, "network_options must be plain values"),
        ({"batch_size": 10, "shards": 3}, "does not divide"),
    ],
)
def test_impossible_recipes(fields, message):
    with pytest.raises(InputError, match=message):
        Recipe(**fields)


def test_options_of_the_network_are_set_by_name():
    recipe = Recipe(network_options={"mean": [0.5]}).replace(width=8, epochs=3)
    assert recipe.network_options == {"mean": [0.5], "width": 8}
    assert recipe.epochs == 3
    assert recipe.replace(width=16, dropout=0.1).network_options == {
        "mean": [0.5],
        "width": 16,
        "dropout": 0.1,
    }
    assert recipe.network_options == {"mean": [0.5], "width": 8}  # and the first is as it was


@pytest.mark.parametrize("network", [name for name in NETWORKS if name != "wide_resnet"])
def test_another_network_has_none_of_the_options_that_it_does_not_know(network):
    options = {"depth": 28, "width": 10, "filterwise": True, "dropout": 0.1, "mean": [0.5], "std": [0.2]}
    recipe = Recipe(network="wide_resnet", network_options=options)
    assert recipe.replace(network=network).network_options == {"dropout": 0.1, "mean": [0.5], "std": [0.2]}
    assert recipe.replace(network="wide_resnet").network_options == options
    assert recipe.replace(network="mlp", hidden=8).network_options["hidden"] == 8


def test_what_follows_from_a_recipe():
    deep = Recipe(ensemble="deep", members=4, mixing="camixup")
    assert (deep.streams, deep.needs_validation, deep.adaptive, deep.couples_members) == (
        4,
        True,
        True,
        False,
    )
    assert deep.replace(gap_of="pool").couples_members
    forgetting = Recipe(ensemble="batch", members=4, mixing="forgetting")
    assert (forgetting.streams, forgetting.needs_validation, forgetting.adaptive) == (1, False, True)
    assert not Recipe(ensemble="batch", members=4, mixing="camixup", gap_of="pool").couples_members
    assert Recipe(mixing="regmixup").rows_per_image == 2
    assert Recipe(mixing="cutmix").rows_per_image == 1


def test_mc_dropout_has_one_network_and_one_gap():
    recipe = Recipe(ensemble="mc", members=3, network_options={"dropout": 0.1}, mixing="camixup")
    assert recipe.augment == recipe.replace(gap_of="pool").augment == "camixup"
