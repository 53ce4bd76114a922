import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calmix.corruptions.constants import ALL_CORRUPTIONS
from calmix.corruptions.corrupt import corrupt
from calmix.errors import InputError
from tests.corruptions.scenes import photographs

RANDOM = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "glass_blur", "motion_blur", "snow", "frost", "fog"),
    *("elastic_transform", "speckle_noise", "spatter"),
)


@pytest.mark.parametrize("name", ALL_CORRUPTIONS)
@pytest.mark.parametrize(("height", "width"), [(32, 32), (29, 35)])
def test_an_image_comes_out_the_same_in_every_batch(name, height, width):
    images = photographs(150, height, width)
    whole = corrupt(images, name, 4, seed=9)
    for first, last in ((0, 1), (3, 61), (60, 131), (149, 150)):
        np.testing.assert_array_equal(
            corrupt(images[first:last], name, 4, seed=9, start=first), whole[first:last]
        )


@settings(max_examples=20, deadline=None)
@given(cut=st.integers(0, 70), name=st.sampled_from(ALL_CORRUPTIONS), severity=st.integers(1, 5))
def test_a_batch_may_be_cut_anywhere(cut, name, severity):
    images = photographs(70, 16, 20)
    parts = [corrupt(images[:cut], name, severity), corrupt(images[cut:], name, severity, start=cut)]
    np.testing.assert_array_equal(np.concatenate(parts), corrupt(images, name, severity))


@pytest.mark.parametrize("name", ALL_CORRUPTIONS)
def test_no_images_are_none_wherever_they_would_start(name):
    assert corrupt(photographs(0), name, 3, start=70).shape == (0, 32, 32, 3)


@pytest.mark.parametrize("name", RANDOM)
def test_every_image_and_every_seed_has_draws_of_its_own(name):
    same = np.repeat(photographs(1), 80, axis=0)
    found = corrupt(same, name, 3)
    # Whole pixels leave a streak only so many directions; one draw for each block would leave 2 pictures.
    assert len(np.unique(found.reshape(80, -1), axis=0)) > (15 if name == "motion_blur" else 75)
    assert (found != corrupt(same, name, 3, seed=1)).any(axis=(1, 2, 3)).mean() > 0.9


@pytest.mark.parametrize("name", sorted(set(ALL_CORRUPTIONS) - set(RANDOM)))
def test_the_others_have_none(name):
    images = photographs(2)
    np.testing.assert_array_equal(corrupt(images, name, 3), corrupt(images, name, 3, seed=1, start=77))


@pytest.mark.parametrize("name", ALL_CORRUPTIONS)
@pytest.mark.parametrize(
    "shape", [(2, 28, 28, 1), (2, 33, 48, 3), (1, 224, 230, 3), (2, 8, 9, 1), (0, 32, 32, 3)]
)
def test_every_shape_keeps_its_shape_and_the_input_is_left_alone(name, shape):
    images = photographs(*shape)
    before = images.copy()
    images.flags.writeable = False
    found = corrupt(images, name, 5)
    assert found.shape == shape
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(images, before)
    if shape[0] and name != "saturate":
        assert (found != before).any()


@pytest.mark.parametrize("name", ["snow", "brightness", "contrast", "motion_blur", "jpeg_compression", "fog"])
def test_grey_is_what_three_equal_channels_would_be(name):
    grey = photographs(3, channels=1)
    coloured = corrupt(np.repeat(grey, 3, axis=-1), name, 3)
    np.testing.assert_array_equal(corrupt(grey, name, 3), coloured[..., :1])


def test_grey_frost_is_the_luma_of_coloured_frost():
    grey = photographs(3, channels=1)
    coloured = corrupt(np.repeat(grey, 3, axis=-1), "frost", 3).astype(float)
    luma = coloured @ [0.299, 0.587, 0.114]
    assert np.abs(corrupt(grey, "frost", 3)[..., 0] - luma).max() <= 0.51


@pytest.mark.parametrize("name", ALL_CORRUPTIONS)
def test_strides_do_not_matter(name):
    planes = np.ascontiguousarray(photographs(3).transpose(0, 3, 1, 2))
    images = planes.transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(corrupt(images, name, 2), corrupt(np.ascontiguousarray(images), name, 2))


def test_a_tensor_gives_a_tensor():
    images = photographs(3)
    found = corrupt(torch.from_numpy(images), "glass_blur", 4, seed=5, start=2)
    assert found.dtype == torch.uint8
    np.testing.assert_array_equal(found.numpy(), corrupt(images, "glass_blur", 4, seed=5, start=2))


def test_constants_follow_the_size_unless_told():
    small, large = photographs(1), photographs(1, 224, 224)
    level = {n: corrupt(np.zeros((1, n, n, 3), np.uint8), "brightness", 2).max() for n in (32, 64, 224, 300)}
    assert level == {32: 25, 64: 51, 224: 51, 300: 51}
    assert (corrupt(small, "pixelate", 1, size=299) != corrupt(small, "pixelate", 1)).any()
    assert (corrupt(large, "pixelate", 1, size=299) != corrupt(large, "pixelate", 1)).any()


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((1, 32, 32, 3)), "images is float64"),
        (torch.zeros(1, 32, 32, 3), "images is float32"),
        ([[1]], "images is list"),
        (np.zeros((32, 32, 3), np.uint8), r"shape \(32, 32, 3\)"),
        (np.zeros((1, 3, 32, 32), np.uint8), r"shape \(1, 3, 32, 32\)"),
        (np.zeros((1, 7, 32, 3), np.uint8), "at least 8 x 8"),
    ],
)
def test_what_are_no_images_is_refused(images, message):
    with pytest.raises(InputError, match=message):
        corrupt(images, "fog", 1)


def test_a_negative_start_is_refused():
    with pytest.raises(InputError, match="start=-1"):
        corrupt(photographs(1), "fog", 1, start=-1)


@pytest.mark.parametrize(
    ("name", "darker", "brighter"),
    [("brightness", 35, 40), ("snow", 20, 80), ("contrast", -1, 0), ("gaussian_noise", -0.7, -0.3)],
)
def test_the_mean_shifts_as_it_should(name, darker, brighter):
    images = np.full((64, 32, 32, 3), 100, np.uint8)
    assert darker < corrupt(images, name, 3).mean() - 100 <= brighter
