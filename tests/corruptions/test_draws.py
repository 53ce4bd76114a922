import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.corruptions.draws import Draws, block_length


def make_draws(seed=0, name="fog", severity=1, block=0, length=8, rows=slice(0, 8)):
    return Draws(seed, name, severity, block=block, length=length, rows=rows)


def several(draws):
    """Draws of every kind in a row; the 16-bit words do not fill the last 64 bits."""
    return draws.words(3, 5), draws.uniform(-1, 1), draws.normal(0, 1, 7), draws.integers(-2, 2, 3)


@given(first=st.integers(0, 7), count=st.integers(1, 8))
def test_rows_do_not_depend_on_the_other_rows(first, count):
    some = slice(first, min(8, first + count))
    for whole, part in zip(several(make_draws()), several(make_draws(rows=some)), strict=True):
        np.testing.assert_array_equal(whole[some], part)


@pytest.mark.parametrize("other", [{"seed": 1}, {"name": "snow"}, {"severity": 2}, {"block": 1}])
def test_every_part_of_the_key_changes_the_draws(other):
    assert (make_draws().words(100) != make_draws(**other).words(100)).mean() > 0.99


def test_images_and_pixels_are_independent():
    values = make_draws(length=4, rows=slice(0, 4)).normal(0, 1, 50, 50).reshape(4, -1)
    assert np.abs(np.corrcoef(values) - np.eye(4)).max() < 0.1


def test_moments_of_normal_draws():
    values = make_draws().normal(3, 2, 20000).astype(np.float64)
    standard = (values - 3) / 2
    for power, moment, error in ((1, 0, 0.01), (2, 1, 0.02), (3, 0, 0.05), (4, 3, 0.1)):
        assert np.mean(standard**power) == pytest.approx(moment, abs=error)


def test_uniform_draws_are_uniform_in_their_range():
    values = make_draws().uniform(-45, 45, 20000)
    counts = np.histogram(values, bins=9, range=(-45, 45))[0]
    assert counts.sum() == values.size
    assert np.abs(counts / values.size * 9 - 1).max() < 0.05


def test_integers_exclude_the_upper_end():
    values, counts = np.unique(make_draws().integers(-2, 2, 20000), return_counts=True)
    assert values.tolist() == [-2, -1, 0, 1]
    assert np.abs(counts / counts.sum() * 4 - 1).max() < 0.05


def test_block_length_by_size():
    assert [block_length(n, n) for n in (8, 32, 64, 224, 1000)] == [64, 64, 16, 1, 1]
