import pytest

from calmix.corruptions.constants import (
    ALL_CORRUPTIONS,
    AUTHORS_CIFAR100,
    CORRUPTIONS,
    EXTRA_CORRUPTIONS,
    SEVERITIES,
    constants,
    nearest_size,
)
from calmix.errors import InputError


def test_number_of_corruptions():
    assert (len(set(CORRUPTIONS)), len(set(EXTRA_CORRUPTIONS)), len(set(AUTHORS_CIFAR100))) == (15, 4, 17)
    assert set(ALL_CORRUPTIONS) - set(AUTHORS_CIFAR100) == {"motion_blur", "snow"}


def test_rows_of_a_corruption_have_one_length():
    for name in ALL_CORRUPTIONS:
        lengths = {len(constants(name, s, size=size)) for size in (32, 64, 224, 299) for s in SEVERITIES}
        assert len(lengths) == 1, name


def test_values_of_the_benchmark():
    assert constants("gaussian_noise", 5, size=32) == (0.10,)
    assert constants("elastic_transform", 2, size=64) == pytest.approx((3.2, 19.2, 3.84))
    assert constants("elastic_transform", 1, size=224) == pytest.approx((488, 170.8, 24.4))
    assert constants("elastic_transform", 1, size=299) == pytest.approx((720, 252, 36))
    assert constants("snow", 3, size=64) == (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7)
    assert constants("saturate", 5, size=64) == (30, 0.2)
    assert constants("saturate", 5, size=299) == (20, 0.2)
    assert constants("fog", 3, size=299) == (2.5, 1.8)


@pytest.mark.parametrize(
    ("height", "width", "size"),
    [
        (32, 32, 32),
        (28, 28, 32),
        (40, 900, 32),
        (64, 64, 64),
        (143, 300, 64),
        (145, 145, 224),
        (299, 299, 224),
    ],
)
def test_nearest_size_is_that_of_the_shorter_side(height, width, size):
    assert nearest_size(height, width) == nearest_size(width, height) == size


def test_unknown_name_raises_with_the_nearest_one():
    with pytest.raises(InputError, match="unknown corruption 'gausian_noise'; did you mean 'gaussian_noise'"):
        constants("gausian_noise", 1, size=32)


@pytest.mark.parametrize("severity", [0, 6, 2.5, "3"])
def test_bad_severity_raises(severity):
    with pytest.raises(InputError, match=f"severity must be one of 1, 2, 3, 4, 5, got {severity!r}"):
        constants("fog", severity, size=32)


def test_size_without_constants_raises():
    with pytest.raises(InputError, match="size must be one of 32, 64, 224, 299, got 96"):
        constants("fog", 1, size=96)
