import numpy as np
import pytest

from calmix import InputError
from calmix.data import from_arrays
from calmix.runs.defaults import describe, epochs
from calmix.runs.presets import preset
from tests.own import arrays, write_code


def own(kind, **fields):
    return preset(from_arrays(arrays(kind), name="mine"), fields.pop("ensemble", "single"), **fields)


def test_images_have_a_convnet_with_their_own_normalisation():
    recipe = own("image")
    assert recipe.network == "small_resnet"
    pixels = arrays()["x_train"] / 255
    assert recipe.network_options["mean"] == pytest.approx(pixels.mean((0, 1, 2)), abs=1e-3)
    assert recipe.network_options["std"] == pytest.approx(pixels.std((0, 1, 2)), abs=1e-3)
    assert (recipe.flip, recipe.standardise, recipe.validation_size) == (False, False, 12)


def test_tables_are_standardised():
    recipe = own("vector", ensemble="mc")
    assert (recipe.network, recipe.standardise, recipe.pad) == ("mlp", True, 0)
    assert recipe.network_options == {"hidden": 128, "dropout": 0.1}
    assert recipe.members == 20


def test_tokens_need_a_network_and_are_trained_by_adamw(tmp_path):
    with pytest.raises(InputError, match=r"mine has tokens examples .* pass network='file.py:make'"):
        own("tokens")
    write_code(tmp_path)
    recipe = own("tokens", network=f"{tmp_path}/nets.py:text", ensemble="mc")
    assert (recipe.optimiser, recipe.schedule, recipe.learning_rate) == ("adamw", "cosine", 1e-3)
    assert recipe.network_options == {}
    assert own("tokens", network=f"{tmp_path}/nets.py:text", optimiser="sgd").schedule == "one-cycle"


def test_a_built_in_network_can_be_named():
    recipe = own("image", network="mlp")
    assert (recipe.network, recipe.network_options["hidden"]) == ("mlp", 128)
    with pytest.raises(InputError, match="unknown network 'mpl'; did you mean 'mlp'"):
        own("image", network="mpl")


def test_epochs_make_up_for_the_size():
    assert [epochs(n, 64) for n in (100, 6400, 640_000)] == [100, 30, 5]


def test_a_smoke_test_fits_the_data():
    recipe = own("vector", scale="smoke")
    assert (recipe.train_size, recipe.validation_size, recipe.epochs, recipe.batch_size) == (48, 12, 2, 40)


def test_what_was_derived_is_said():
    whole = from_arrays(arrays("vector"), name="mine")
    text = describe(preset(whole, "single"), whole)
    assert text.startswith(
        "mine: 60 training and 20 test examples (vector 5), 3 classes; network=mlp, epochs="
    )
    assert text.endswith("standardise=True")


def test_too_few_examples():
    x, y = np.zeros((3, 2)), np.array([0, 1, 0])
    with pytest.raises(InputError, match="too few to hold some out"):
        preset(from_arrays({"x_train": x, "y_train": y, "x_test": x, "y_test": y}), "single")


def test_a_built_in_data_set_with_a_network_of_ones_own(tmp_path):
    write_code(tmp_path)
    recipe = preset("digits", "mc", "camixup", scale="smoke", network=f"{tmp_path}/nets.py:make")
    start = preset("digits", "mc", "camixup", scale="smoke")
    assert (recipe.network, recipe.network_options) == ("nets.py:make", {})
    assert recipe.replace(network="small_resnet", **start.network_options) == start
