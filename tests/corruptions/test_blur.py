import numpy as np
import pytest

from calmix.corruptions import blur
from calmix.corruptions.constants import SEVERITIES
from calmix.corruptions.dispatch import corrupt
from tests.corruptions import reference
from tests.corruptions.scenes import assert_agree, photographs


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize(
    ("name", "fraction"), [("defocus_blur", 0.001), ("zoom_blur", 0.005), ("gaussian_blur", 0)]
)
def test_deterministic_blurs_equal_reference(name, fraction, severity):
    images = photographs()
    assert_agree(corrupt(images, name, severity), reference.corrupted(images, name, severity), fraction)


@pytest.mark.parametrize("name", ["defocus_blur", "zoom_blur", "gaussian_blur"])
def test_deterministic_blurs_of_oblong_images_with_large_constants_equal_reference(name):
    images = photographs(2, height=72, width=50)
    assert_agree(corrupt(images, name, 5, size=224), reference.corrupted(images, name, 5, size=224))


@pytest.mark.parametrize("severity", SEVERITIES)
def test_glass_blur_equals_the_loop_over_pixels(severity):
    images = photographs(3)
    expected = reference.corrupted(images, "glass_blur", severity, seed=3)
    np.testing.assert_array_equal(corrupt(images, "glass_blur", severity, seed=3), expected)


@pytest.mark.parametrize("severity", [2, 3, 5])
def test_glass_blur_follows_chains_of_copies(severity):
    images = photographs(2, height=40, width=28)
    expected = reference.corrupted(images, "glass_blur", severity, size=224)
    np.testing.assert_array_equal(corrupt(images, "glass_blur", severity, size=224), expected)


def test_glass_blur_moves_no_pixel_of_an_image_smaller_than_its_reach():
    images = photographs(1, height=9, width=8)
    np.testing.assert_array_equal(
        corrupt(images, "glass_blur", 5, size=299),
        blur.gaussian_blur(blur.gaussian_blur(images, 1.6), 1.6),
    )


@pytest.mark.parametrize("severity", SEVERITIES)
def test_motion_blur_equals_reference(severity):
    images = photographs(height=32, width=45)
    expected = reference.corrupted(images, "motion_blur", severity, seed=1)
    assert_agree(corrupt(images, "motion_blur", severity, seed=1), expected, fraction=0.001)


def test_streak_of_a_point_is_half_a_gaussian_to_its_left():
    images = np.zeros((1, 9, 20, 1), np.uint8)
    images[0, 4, 12] = 255
    gaussian = np.exp(-(np.arange(5) ** 2) / 2)
    gaussian = np.floor(255 * gaussian / gaussian.sum())
    blurred = blur.streak(images, np.zeros(1, np.float32), radius=2, sigma=1)[0, ..., 0]
    assert blurred[4, 8:13].tolist() == gaussian[::-1].tolist()
    assert blurred.sum() == gaussian.sum()


def test_streak_of_ninety_degrees_goes_up():
    images = np.zeros((1, 20, 9, 1), np.uint8)
    images[0, 12, 4] = 255
    blurred = blur.streak(images, np.full(1, 90, np.float32), radius=2, sigma=1)[0, ..., 0]
    assert np.flatnonzero(blurred.any(axis=1)).tolist() == [9, 10, 11, 12]
    assert np.flatnonzero(blurred.any(axis=0)).tolist() == [4]


def test_motion_blur_draws_a_direction_within_45_degrees_for_each_image():
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
def test_flat_image_does_not_change(name, level):
    images = np.full((3, 32, 32, 3), level, np.uint8)
    for severity in SEVERITIES:
        np.testing.assert_array_equal(corrupt(images, name, severity), images)


def test_large_defocus_brightens_by_the_sum_of_its_kernel():
    images = np.full((1, 64, 64, 3), 100, np.uint8)
    assert (corrupt(images, "defocus_blur", 4, size=224) == 101).all()
    assert blur._disk(8, 0.5).sum() == pytest.approx(1.0130, abs=1e-4)
    assert blur._disk(10, 0.5).sum() == pytest.approx(1.0108, abs=1e-4)


def test_zoom_by_two_enlarges_the_middle_half():
    expected = np.zeros((8, 8))
    expected[np.arange(8), 2 + np.arange(8) * 3 // 7] = 1 - (np.arange(8) * 3 / 7) % 1
    np.testing.assert_allclose(blur.zoom_matrix(8, 2.0).sum(axis=1), 1, rtol=1e-6)
    matrix = blur.zoom_matrix(8, 2.0) * (expected > 0)
    np.testing.assert_allclose(matrix, expected, atol=1e-6)
