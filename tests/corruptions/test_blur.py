import numpy as np
import pytest

from calmix.corruptions import blur
from calmix.corruptions.constants import SEVERITIES, constants
from calmix.corruptions.corrupt import corrupt
from tests.corruptions import reference
from tests.corruptions.scenes import assert_agree, photographs


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize(
    ("name", "share"), [("defocus_blur", 0.001), ("zoom_blur", 0.005), ("gaussian_blur", 0)]
)
def test_deterministic_blurs_agree_with_the_reference(name, share, severity):
    images = photographs()
    values = constants(name, severity, size=32)
    expected = np.stack([getattr(reference, name)(image, *values) for image in images])
    assert_agree(corrupt(images, name, severity), expected, share)


@pytest.mark.parametrize("name", ["defocus_blur", "zoom_blur", "gaussian_blur"])
def test_deterministic_blurs_of_images_that_are_not_square_agree_with_large_constants(name):
    images = photographs(2, height=72, width=50)
    values = constants(name, 5, size=224)
    expected = np.stack([getattr(reference, name)(image, *values) for image in images])
    assert_agree(corrupt(images, name, 5, size=224), expected)


def one_by_one(images, name, severity, size, seed, length):
    values = [int(v) if float(v).is_integer() else v for v in constants(name, severity, size=size)]
    return np.stack(
        [
            getattr(reference, name)(image, reference.OneOf(seed, name, severity, i, length), *values)
            for i, image in enumerate(images)
        ]
    )


@pytest.mark.parametrize("severity", SEVERITIES)
def test_glass_blur_copies_as_the_walk_over_pixels_does(severity):
    images = photographs(3)
    found = corrupt(images, "glass_blur", severity, seed=3)
    np.testing.assert_array_equal(found, one_by_one(images, "glass_blur", severity, 32, 3, 64))


@pytest.mark.parametrize("severity", [2, 3, 5])
def test_glass_blur_follows_chains_of_copies(severity):
    images = photographs(2, height=40, width=28)
    found = corrupt(images, "glass_blur", severity, size=224)
    np.testing.assert_array_equal(
        found, one_by_one(images, "glass_blur", severity, 224, 0, 65536 // (40 * 28))
    )


def test_glass_blur_leaves_a_picture_smaller_than_its_reach_in_place():
    images = photographs(1, height=9, width=8)
    np.testing.assert_array_equal(
        corrupt(images, "glass_blur", 5, size=299),
        blur.gaussian_blur(blur.gaussian_blur(images, 1.6), 1.6),
    )


@pytest.mark.parametrize("severity", SEVERITIES)
def test_motion_blur_agrees_with_the_reference(severity):
    images = photographs(height=32, width=45)
    found = corrupt(images, "motion_blur", severity, seed=1)
    assert_agree(found, one_by_one(images, "motion_blur", severity, 32, 1, 65536 // (32 * 45)), share=0.001)


def test_a_point_becomes_half_a_bell_to_the_left_of_it():
    images = np.zeros((1, 9, 20, 1), np.uint8)
    images[0, 4, 12] = 255
    bell = np.exp(-(np.arange(5) ** 2) / 2)
    bell = np.floor(255 * bell / bell.sum())
    found = blur.streak(images, np.zeros(1, np.float32), radius=2, sigma=1)[0, ..., 0]
    assert found[4, 8:13].tolist() == bell[::-1].tolist()
    assert found.sum() == bell.sum()


def test_a_streak_of_ninety_degrees_goes_up():
    images = np.zeros((1, 20, 9, 1), np.uint8)
    images[0, 12, 4] = 255
    found = blur.streak(images, np.full(1, 90, np.float32), radius=2, sigma=1)[0, ..., 0]
    assert np.flatnonzero(found.any(axis=1)).tolist() == [9, 10, 11, 12]
    assert np.flatnonzero(found.any(axis=0)).tolist() == [4]


def test_every_image_moves_in_a_direction_of_its_own_within_45_degrees():
    images = np.zeros((64, 33, 33, 1), np.uint8)
    images[:, 16, 16] = 255
    blurred = corrupt(images, "motion_blur", 5)[..., 0]
    up, down = blurred[:, :16].any(axis=(1, 2)), blurred[:, 17:].any(axis=(1, 2))
    assert 0.3 < up.mean() < 0.7
    assert 0.3 < down.mean() < 0.7
    assert not (up & down).any()
    assert not blurred[:, :, 17:].any()
    assert blurred[:, 16, 15].astype(bool).mean() > 0.3


@pytest.mark.parametrize("level", [0, 1, 97, 200, 255])
@pytest.mark.parametrize("name", ["motion_blur", "zoom_blur", "elastic_transform"])
def test_a_flat_image_stays_as_it_is(name, level):
    images = np.full((3, 32, 32, 3), level, np.uint8)
    for severity in SEVERITIES:
        np.testing.assert_array_equal(corrupt(images, name, severity), images)


def test_large_defocus_brightens_by_the_sum_of_its_kernel():
    images = np.full((1, 64, 64, 3), 100, np.uint8)
    assert (corrupt(images, "defocus_blur", 4, size=224) == 101).all()
    assert blur._disk(8, 0.5).sum() == pytest.approx(1.0130, abs=1e-4)
    assert blur._disk(10, 0.5).sum() == pytest.approx(1.0108, abs=1e-4)


def test_a_zoom_by_two_takes_the_middle_half():
    expected = np.zeros((8, 8))
    expected[np.arange(8), 2 + np.arange(8) * 3 // 7] = 1 - (np.arange(8) * 3 / 7) % 1
    np.testing.assert_allclose(blur.zoom_matrix(8, 2.0).sum(axis=1), 1, rtol=1e-6)
    inside = blur.zoom_matrix(8, 2.0) * (expected > 0)
    np.testing.assert_allclose(inside, expected, atol=1e-6)
