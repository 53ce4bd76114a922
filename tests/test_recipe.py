import dataclasses
import json
import math

import pytest

from calmix import InputError
from calmix.recipe import Recipe, parse_augment


def test_the_name_depends_on_every_field():
    base = Recipe()
    changed = {
        int: lambda v: v + 1,
        float: lambda v: v + 0.5 if v >= 1 else 0.7 * v + 0.04,
        bool: lambda v: not v,
        tuple: lambda v: (*v, 1),
    }
    words = {"dataset": "cifar10", "scale": "smoke", "network": "mlp", "ensemble": "deep"}
    words |= {"transform": "augmix", "mixing": "mixup", "gap_of": "pool", "partner": "reversed"}
    words |= {"forgetting_rule": "pair", "schedule": "one-cycle"}
    names = {base.name}
    for field in dataclasses.fields(Recipe):
        value = getattr(base, field.name)
        other = words[field.name] if isinstance(value, str) else changed[type(value)](value)
        needs = {"members": {"ensemble": "deep"}, "consistency": {"transform": "augmix"}}
        needs |= {"filterwise_dropout": {"network": "wide_resnet"}}
        extra = needs.get(field.name, {})
        names.add(dataclasses.replace(base, **extra, **{field.name: other}).name)
    assert len(names) == len(dataclasses.fields(Recipe)) + 1


def test_json_gives_the_same_recipe_back():
    recipe = Recipe(dataset="cifar10", decay_epochs=(60, 120), mean=(0.1, 0.2, 0.3))
    assert Recipe.from_json(json.loads(recipe.to_json())) == recipe


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'epochs'"):
        Recipe.from_json({"epoch": 3})


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"epochs": "ten"}, "'epochs' must be a whole number"),
        ({"epochs": 1.5}, "'epochs' must be a whole number"),
        ({"epochs": True}, "'epochs' must be a whole number"),
        ({"alpha": None}, "'alpha' must be a number"),
        ({"flip": "no"}, "'flip' must be true or false"),
        ({"dataset": 5}, "'dataset' must be a string"),
        ({"mean": 3}, "'mean' must be a list of numbers"),
        ({"decay_epochs": ["a"]}, "'decay_epochs' must be a whole number"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_name(fields, told):
    with pytest.raises(InputError, match=told):
        Recipe.from_json(fields)


def test_a_whole_number_stands_for_any():
    assert Recipe.from_json({"alpha": 1, "mean": [0, 1]}).name == Recipe(alpha=1.0, mean=(0.0, 1.0)).name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("validation_size", 0),
        ("weight_decay", -1.0),
        ("weight_decay", math.nan),
        ("decay_ratio", math.nan),
        ("init_std", -0.1),
        ("decay_epochs", (-3,)),
    ],
)
def test_numbers_that_make_no_sense(name, value):
    with pytest.raises(InputError, match=name.replace("_", "-")):
        Recipe(**{name: value})


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("none", ("none", "none", 0.0)),
        ("mixup", ("none", "mixup", 0.0)),
        ("augmix", ("augmix", "none", 0.0)),
        ("augmixup", ("augmix", "mixup", 0.0)),
        ("augcamixup", ("augmix", "camixup", 0.0)),
        ("label-smoothing", ("none", "none", 0.1)),
        ("camixup+augmix+label-smoothing", ("augmix", "camixup", 0.1)),
    ],
)
def test_augmentations_in_words(text, fields):
    assert tuple(parse_augment(text).values()) == fields


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("camixupp", "did you mean 'camixup'"),
        ("mixup+cutmix", "both a mixing"),
        ("none+mixup", "stands alone"),
        ("augmixup+mixup", "stands alone"),
        ("", "unknown augment"),
    ],
)
def test_bad_augmentations(text, message):
    with pytest.raises(InputError, match=message):
        parse_augment(text)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epochs": 0}, "--epochs must be at least 1"),
        ({"learning_rate": 0.0}, "--learning-rate must be above 0"),
        ({"alpha": float("nan")}, "--alpha must be above 0"),
        ({"smoothing": 1.0}, "--smoothing must be at least 0 and below 1"),
        ({"dataset": "cifar"}, "did you mean 'cifar10'"),
        ({"ensemble": "mc"}, "needs --dropout"),
        ({"members": 4}, "did you mean deep"),
        ({"consistency": 12.0}, "add augmix"),
        ({"train_on_validation": True, "mixing": "camixup"}, "has not seen"),
        ({"filterwise_dropout": True}, "for wide_resnet"),
        ({"batch_size": 10, "shards": 3}, "does not divide"),
    ],
)
def test_impossible_recipes(fields, message):
    with pytest.raises(InputError, match=message):
        Recipe(**fields)


def test_augment_is_said_in_the_words_that_make_it():
    for text in ("none", "mixup", "augmix+camixup", "augmix+mixup+label-smoothing-0.1"):
        fields = parse_augment(text.replace("label-smoothing-0.1", "label-smoothing"))
        assert Recipe(**fields).augment == text
    assert Recipe(mixing="camixup", gap_of="pool", ensemble="deep", members=4).augment == "camixup-by-pool"
