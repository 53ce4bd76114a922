import numpy as np
import pytest

from calmix.corruptions import weather
from calmix.corruptions.constants import SEVERITIES
from calmix.corruptions.dispatch import corrupt
from tests.corruptions import reference
from tests.corruptions.scenes import assert_agree, photographs


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize(("name", "count"), [("snow", 4), ("fog", 2), ("spatter", 4)])
@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (40, 28, 224)])
def test_equals_reference(name, count, severity, height, width, size):
    images = photographs(count, height, width)
    expected = reference.corrupted(images, name, severity, seed=5, size=size)
    assert_agree(corrupt(images, name, severity, seed=5, size=size), expected, fraction=0.002)


@pytest.mark.parametrize(("name", "whitens"), [("snow", True), ("fog", False)])
def test_snow_whitens_black_and_fog_does_not(name, whitens):
    assert corrupt(np.zeros((8, 32, 32, 3), np.uint8), name, 3).any() == whitens


def test_fog_does_not_exceed_the_maximum():
    images = np.minimum(photographs(8), 90)
    assert corrupt(images, "fog", 5).max() <= 90


def test_snow_is_symmetric_under_rotation_by_180_degrees():
    images = np.full((4, 32, 32, 3), 60, np.uint8)
    snowy = corrupt(images, "snow", 2)
    np.testing.assert_array_equal(snowy, snowy[:, ::-1, ::-1])
    assert snowy.std() > 10


class Constant:
    """Draws that all equal the mean."""

    def normal(self, mean, scale, *shape):
        return np.full((1, *shape), mean, np.float32)


def test_spatter_without_drops_changes_nothing():
    images = photographs(1)
    spattered = weather.spatter(images, Constant(), 0.2, 0, 1, 0.7, 0.6, 0)
    np.testing.assert_array_equal(spattered, images)


def test_spatter_above_white_does_not_overflow():
    images = np.zeros((1, 32, 32, 3), np.uint8)
    full = weather.spatter(images, Constant(), 1.0, 0, 1, 0.7, 0.6, 0)
    assert full.any()
    np.testing.assert_array_equal(weather.spatter(images, Constant(), 1.3, 0, 1, 0.7, 0.6, 0), full)


def test_mud_is_brown_and_water_is_turquoise():
    black, white = np.zeros((64, 32, 32, 3), np.uint8), np.full((64, 32, 32, 3), 255, np.uint8)
    water = corrupt(black, "spatter", 2)
    assert (water[..., 0] <= water[..., 1]).all()
    assert (water[..., 1] == water[..., 2]).all()
    assert water.max(axis=(1, 2)).tolist() == [[87, 119, 119]] * 64
    mud = corrupt(white, "spatter", 4)
    assert np.unique(mud.reshape(-1, 3), axis=0)[0].tolist() == [63, 42, 20]
