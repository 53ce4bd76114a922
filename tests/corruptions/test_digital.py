import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmix.corruptions import digital
from calmix.corruptions.constants import SEVERITIES, constants
from calmix.corruptions.corrupt import corrupt
from tests.corruptions import reference
from tests.corruptions.scenes import assert_agree, photographs


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize(("name", "share"), [("contrast", 0.001), ("pixelate", 0), ("jpeg_compression", 0)])
@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (64, 64, 64), (75, 50, 224)])
def test_deterministic_types_agree_with_the_reference(name, share, severity, height, width, size):
    images = photographs(3, height, width)
    values = constants(name, severity, size=size)
    expected = np.stack([getattr(reference, name)(image, *values) for image in images])
    assert_agree(corrupt(images, name, severity, size=size), expected, share)


@settings(deadline=None)
@given(st.integers(8, 70), st.integers(8, 70), st.sampled_from([0.95, 0.85, 0.75, 0.6, 0.5, 0.3, 0.2]))
def test_pixelate_is_pillows_box_filter_at_every_size(height, width, factor):
    images = np.random.default_rng(0).integers(0, 256, (3, height, width, 3), dtype=np.uint8)
    expected = np.stack([reference.pixelate(image, factor) for image in images])
    np.testing.assert_array_equal(digital.pixelate(images, factor), expected)


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (64, 48, 64), (48, 64, 224)])
def test_elastic_transform_agrees_with_the_reference(severity, height, width, size):
    images = photographs(3, height, width)
    values = constants("elastic_transform", severity, size=size)
    length = min(64, 65536 // (height * width))
    expected = [
        reference.elastic_transform(
            image, reference.OneOf(2, "elastic_transform", severity, i, length), *values
        )
        for i, image in enumerate(images)
    ]
    assert_agree(corrupt(images, "elastic_transform", severity, seed=2, size=size), np.stack(expected))


def test_contrast_pulls_each_channel_to_its_own_mean():
    images = np.zeros((1, 2, 2, 3), np.uint8)
    images[0, 0, :, 0] = 200
    images[0, :, 0, 1] = 100
    pulled = digital.contrast(images, 0.505)[0]
    assert pulled[..., 0].tolist() == [[150, 150], [49, 49]]
    assert pulled[..., 1].tolist() == [[75, 24], [75, 24]]
    assert not pulled[..., 2].any()


def test_contrast_leaves_a_flat_image():
    images = np.arange(256, dtype=np.uint8)[:, None, None, None] * np.ones((1, 7, 9, 3), np.uint8)
    for factor in (0.75, 0.4, 0.05):
        np.testing.assert_array_equal(digital.contrast(images, factor), images)


def test_an_affine_map_moves_the_corners_where_they_were_told_to_go():
    shifts = np.random.default_rng(0).uniform(-3, 3, (5, 3, 2)).astype(np.float32)
    maps = digital._affine_maps(shifts, height=40, width=30)
    corners = np.array([[25, 30], [25, 10], [5, 10]])
    moved = np.einsum("nij,kj->nki", maps, np.column_stack([corners, np.ones(3)]))
    np.testing.assert_allclose(moved, corners + shifts, atol=1e-5)
