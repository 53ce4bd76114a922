import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.corruptions import digital
from calmix.corruptions.constants import SEVERITIES
from calmix.corruptions.dispatch import corrupt
from tests.corruptions import reference
from tests.corruptions.scenes import assert_agree, photographs


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize(
    ("name", "fraction"), [("contrast", 0.001), ("pixelate", 0), ("jpeg_compression", 0)]
)
@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (64, 64, 64), (75, 50, 224)])
def test_deterministic_corruptions_equal_reference(name, fraction, severity, height, width, size):
    images = photographs(3, height, width)
    expected = reference.corrupted(images, name, severity, size=size)
    assert_agree(corrupt(images, name, severity, size=size), expected, fraction)


@given(st.integers(8, 70), st.integers(8, 70), st.sampled_from([0.95, 0.85, 0.75, 0.6, 0.5, 0.3, 0.2]))
def test_pixelate_equals_pillows_box_filter_at_every_size(height, width, factor):
    images = np.random.default_rng(0).integers(0, 256, (3, height, width, 3), dtype=np.uint8)
    expected = np.stack([reference.pixelate(image, factor) for image in images])
    np.testing.assert_array_equal(digital.pixelate(images, factor), expected)


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (64, 48, 64), (48, 64, 224)])
def test_elastic_transform_equals_reference(severity, height, width, size):
    images = photographs(3, height, width)
    expected = reference.corrupted(images, "elastic_transform", severity, seed=2, size=size)
    assert_agree(corrupt(images, "elastic_transform", severity, seed=2, size=size), expected)


def test_contrast_moves_each_channel_towards_its_mean():
    images = np.zeros((1, 2, 2, 3), np.uint8)
    images[0, 0, :, 0] = 200
    images[0, :, 0, 1] = 100
    moved = digital.contrast(images, 0.505)[0]
    assert moved[..., 0].tolist() == [[150, 150], [49, 49]]
    assert moved[..., 1].tolist() == [[75, 24], [75, 24]]
    assert not moved[..., 2].any()


def test_contrast_does_not_change_a_flat_image():
    images = np.arange(256, dtype=np.uint8)[:, None, None, None] * np.ones((1, 7, 9, 3), np.uint8)
    for factor in (0.75, 0.4, 0.05):
        np.testing.assert_array_equal(digital.contrast(images, factor), images)


def test_affine_maps_move_the_corners_by_the_shifts():
    shifts = np.random.default_rng(0).uniform(-3, 3, (5, 3, 2)).astype(np.float32)
    maps = digital._affine_maps(shifts, height=40, width=30)
    corners = np.array([[25, 30], [25, 10], [5, 10]])
    moved = np.einsum("nij,kj->nki", maps, np.column_stack([corners, np.ones(3)]))
    np.testing.assert_allclose(moved, corners + shifts, atol=1e-5)
