import numpy as np
import pytest

from calmix.corruptions import colour
from calmix.corruptions.constants import SEVERITIES
from calmix.corruptions.dispatch import corrupt
from tests.corruptions import reference
from tests.corruptions.scenes import photographs


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("size", [32, 224])
@pytest.mark.parametrize("name", ["brightness", "saturate"])
def test_equals_reference(name, size, severity):
    noise = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3), dtype=np.uint8)
    images = np.concatenate([photographs(2), noise])
    expected = reference.corrupted(images, name, severity, size=size)
    np.testing.assert_array_equal(corrupt(images, name, severity, size=size), expected)


def pixel(function, colour_in, *values):
    return function(np.array(colour_in, np.uint8).reshape(1, 1, 1, 3), *values).ravel().tolist()


def test_brightness_keeps_hue_and_saturation():
    assert pixel(colour.brightness, [100, 50, 0], 51.5 / 255) == [151, 75, 0]


def test_brightness_stops_at_white():
    assert pixel(colour.brightness, [250, 250, 250], 0.5) == [255, 255, 255]


def test_brightness_of_black_is_grey():
    assert pixel(colour.brightness, [0, 0, 0], 10.5 / 255) == [10, 10, 10]


def test_less_saturation_moves_channels_towards_the_brightest():
    assert pixel(colour.saturate, [200, 100, 40], 0.31, 0) == [200, 169, 150]


def test_more_saturation_tints_grey_red():
    assert pixel(colour.saturate, [200, 200, 200], 2, 0.101) == [200, 179, 179]
