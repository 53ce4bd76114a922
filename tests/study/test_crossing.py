import math

import numpy as np
import pytest

from calmix import InputError
from calmix.study.crossing import find_crossing


def test_an_exact_line_crosses_where_it_does():
    found = find_crossing([1, 2, 4, 5], [2, 1, -1, -2], [0.1] * 4)
    assert found.value == pytest.approx(3)
    assert (found.intercept, found.slope) == (pytest.approx(3), pytest.approx(-1))
    assert found.low < 3 < found.high
    assert 3 - found.low == pytest.approx(found.high - 3)


def test_the_interval_covers_as_often_as_it_says():
    draw = np.random.default_rng(0)
    x = np.linspace(0, 4, 7)
    covered = 0
    for _ in range(400):
        found = find_crossing(x, 2 - x + draw.normal(0, 0.3, 7), [0.3] * 7)
        covered += found.low <= 2 <= found.high
    assert covered / 400 > 0.95  # never less: scatter below the errors does not narrow it


def test_a_flat_line_has_no_bounded_interval():
    found = find_crossing([0, 1, 2, 3], [1.0, 1.1, 0.9, 1.0], [0.5] * 4)
    assert not (math.isfinite(found.low) and math.isfinite(found.high))


def test_points_that_scatter_widen_the_interval():
    x, y = [0, 1, 2, 3], [2.5, 0.4, 0.6, -1.5]
    narrow, wide = (find_crossing(x, y, [error] * 4) for error in (0.5, 0.01))
    assert wide.high - wide.low > 0.5
    assert narrow.value == pytest.approx(wide.value)


def test_two_points_are_too_few():
    with pytest.raises(InputError, match="3 points or more"):
        find_crossing([0, 1], [1, -1], [0.1, 0.1])
