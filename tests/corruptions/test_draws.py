import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.corruptions.draws import Draws, block_length


def draws(seed=0, name="fog", severity=1, block=0, length=8, rows=slice(0, 8)):
    return Draws(seed, name, severity, block=block, length=length, rows=rows)


def three_fields(made):
    """One after the other, with a number of 16-bit words that does not fill the last 64 bits."""
    return made.words(3, 5), made.uniform(-1, 1), made.normal(0, 1, 7), made.integers(-2, 2, 3)


@given(first=st.integers(0, 7), count=st.integers(1, 8))
def test_rows_do_not_depend_on_which_others_are_wanted(first, count):
    some = slice(first, min(8, first + count))
    for whole, part in zip(three_fields(draws()), three_fields(draws(rows=some)), strict=True):
        np.testing.assert_array_equal(whole[some], part)


@pytest.mark.parametrize("other", [{"seed": 1}, {"name": "snow"}, {"severity": 2}, {"block": 1}])
def test_everything_in_the_key_changes_the_draws(other):
    assert (draws().words(100) != draws(**other).words(100)).mean() > 0.99


def test_images_and_pixels_are_drawn_apart():
    values = draws(length=4, rows=slice(0, 4)).normal(0, 1, 50, 50).reshape(4, -1)
    assert np.abs(np.corrcoef(values) - np.eye(4)).max() < 0.1


def test_normal_draws_have_the_moments_of_a_normal():
    values = draws().normal(3, 2, 20000).astype(np.float64)
    standard = (values - 3) / 2
    for power, moment, error in ((1, 0, 0.01), (2, 1, 0.02), (3, 0, 0.05), (4, 3, 0.1)):
        assert np.mean(standard**power) == pytest.approx(moment, abs=error)


def test_uniform_draws_fill_their_range():
    values = draws().uniform(-45, 45, 20000)
    counts = np.histogram(values, bins=9, range=(-45, 45))[0]
    assert counts.sum() == values.size
    assert np.abs(counts / values.size * 9 - 1).max() < 0.05


def test_integers_leave_out_the_upper_end():
    values, counts = np.unique(draws().integers(-2, 2, 20000), return_counts=True)
    assert values.tolist() == [-2, -1, 0, 1]
    assert np.abs(counts / counts.sum() * 4 - 1).max() < 0.05


def test_a_block_is_about_as_many_pixels_at_every_size():
    assert [block_length(n, n) for n in (8, 32, 64, 224, 1000)] == [64, 64, 16, 1, 1]
