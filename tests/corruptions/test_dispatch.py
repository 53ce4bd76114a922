import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calmix.corruptions.constants import ALL_CORRUPTIONS
from calmix.corruptions.dispatch import corrupt
from calmix.errors import InputError
from tests.corruptions.scenes import photographs

RANDOM = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "glass_blur", "motion_blur", "snow", "frost", "fog"),
    *("elastic_transform", "speckle_noise", "spatter"),
)


@pytest.mark.parametrize("name", ALL_CORRUPTIONS)
@pytest.mark.parametrize(("height", "width"), [(32, 32), (29, 35)])
def test_result_does_not_depend_on_the_batch(name, height, width):
    images = photographs(150, height, width)
    whole = corrupt(images, name, 4, seed=9)
    for first, last in ((0, 1), (3, 61), (60, 131), (149, 150)):
        np.testing.assert_array_equal(
            corrupt(images[first:last], name, 4, seed=9, start=first), whole[first:last]
        )


@settings(max_examples=20)
@given(cut=st.integers(0, 70), name=st.sampled_from(ALL_CORRUPTIONS), severity=st.integers(1, 5))
def test_parts_of_a_batch_equal_the_whole(cut, name, severity):
    images = photographs(70, 16, 20)
    parts = [corrupt(images[:cut], name, severity), corrupt(images[cut:], name, severity, start=cut)]
    np.testing.assert_array_equal(np.concatenate(parts), corrupt(images, name, severity))


@pytest.mark.parametrize("name", ALL_CORRUPTIONS)
def test_empty_batch(name):
    assert corrupt(photographs(0), name, 3, start=70).shape == (0, 32, 32, 3)


@pytest.mark.parametrize("name", RANDOM)
def test_random_corruptions_differ_by_image_and_seed(name):
    same = np.repeat(photographs(1), 80, axis=0)
    corrupted = corrupt(same, name, 3)
    # Streaks of whole pixels have few directions; one draw per block would give 2 different images.
    assert len(np.unique(corrupted.reshape(80, -1), axis=0)) > (15 if name == "motion_blur" else 75)
    assert (corrupted != corrupt(same, name, 3, seed=1)).any(axis=(1, 2, 3)).mean() > 0.9


@pytest.mark.parametrize("name", sorted(set(ALL_CORRUPTIONS) - set(RANDOM)))
def test_other_corruptions_are_deterministic(name):
    images = photographs(2)
    np.testing.assert_array_equal(corrupt(images, name, 3), corrupt(images, name, 3, seed=1, start=77))


@pytest.mark.parametrize("name", ALL_CORRUPTIONS)
@pytest.mark.parametrize(
    "shape", [(2, 28, 28, 1), (2, 33, 48, 3), (1, 224, 230, 3), (2, 8, 9, 1), (0, 32, 32, 3)]
)
def test_shape_is_kept_and_input_is_not_modified(name, shape):
    images = photographs(*shape)
    before = images.copy()
    images.flags.writeable = False
    corrupted = corrupt(images, name, 5)
    assert corrupted.shape == shape
    assert corrupted.dtype == np.uint8
    np.testing.assert_array_equal(images, before)
    if shape[0] and name != "saturate":
        assert (corrupted != before).any()


@pytest.mark.parametrize("name", ["snow", "brightness", "contrast", "motion_blur", "jpeg_compression", "fog"])
def test_grey_equals_three_equal_channels(name):
    grey = photographs(3, channels=1)
    coloured = corrupt(np.repeat(grey, 3, axis=-1), name, 3)
    np.testing.assert_array_equal(corrupt(grey, name, 3), coloured[..., :1])


def test_grey_frost_is_the_luma_of_coloured_frost():
    grey = photographs(3, channels=1)
    coloured = corrupt(np.repeat(grey, 3, axis=-1), "frost", 3).astype(float)
    luma = coloured @ [0.299, 0.587, 0.114]
    assert np.abs(corrupt(grey, "frost", 3)[..., 0] - luma).max() <= 0.51


@pytest.mark.parametrize("name", ALL_CORRUPTIONS)
def test_result_does_not_depend_on_strides(name):
    planes = np.ascontiguousarray(photographs(3).transpose(0, 3, 1, 2))
    images = planes.transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(corrupt(images, name, 2), corrupt(np.ascontiguousarray(images), name, 2))


def test_tensor_in_tensor_out():
    images = photographs(3)
    corrupted = corrupt(torch.from_numpy(images), "glass_blur", 4, seed=5, start=2)
    assert corrupted.dtype == torch.uint8
    np.testing.assert_array_equal(corrupted.numpy(), corrupt(images, "glass_blur", 4, seed=5, start=2))


def test_constants_are_those_of_the_size_unless_given():
    small, large = photographs(1), photographs(1, 224, 224)
    level = {n: corrupt(np.zeros((1, n, n, 3), np.uint8), "brightness", 2).max() for n in (32, 64, 224, 300)}
    assert level == {32: 25, 64: 51, 224: 51, 300: 51}
    assert (corrupt(small, "pixelate", 1, size=299) != corrupt(small, "pixelate", 1)).any()
    assert (corrupt(large, "pixelate", 1, size=299) != corrupt(large, "pixelate", 1)).any()


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((1, 32, 32, 3)), "uint8 array or tensor, got float64"),
        (torch.zeros(1, 32, 32, 3), "uint8 array or tensor, got float32"),
        ([[1]], "uint8 array or tensor, got list"),
        (np.zeros((32, 32, 3), np.uint8), r"got \(32, 32, 3\)"),
        (np.zeros((1, 3, 32, 32), np.uint8), r"got \(1, 3, 32, 32\)"),
        (np.zeros((1, 7, 32, 3), np.uint8), "at least 8 x 8"),
    ],
)
def test_bad_images_raise(images, message):
    with pytest.raises(InputError, match=message):
        corrupt(images, "fog", 1)


def test_negative_start_raises():
    with pytest.raises(InputError, match="start must be at least 0, got -1"):
        corrupt(photographs(1), "fog", 1, start=-1)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("brightness", 35, 40), ("snow", 20, 80), ("contrast", -1, 0), ("gaussian_noise", -0.7, -0.3)],
)
def test_shift_of_the_mean(name, low, high):
    images = np.full((64, 32, 32, 3), 100, np.uint8)
    assert low < corrupt(images, name, 3).mean() - 100 <= high
