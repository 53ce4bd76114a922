import pytest

from calmix import InputError
from calmix.metrics import Interval
from calmix.study.crossing import Crossing, find_crossing

HARM, HELP, UNCLEAR = Interval(0.06, 0.04, 0.08), Interval(-0.02, -0.03, -0.01), Interval(0.01, -0.01, 0.03)


def test_it_lies_between_the_last_above_and_the_first_below():
    found = find_crossing([0.3, 0.01, 0.08, 0.02], [HELP, HARM, UNCLEAR, HARM])
    assert (found.last, found.first) == (0.02, 0.3)
    # A third of the way from +1 point, at 0.08, to -2 points, on a logarithmic axis.
    assert found.value == pytest.approx(0.08 * (0.3 / 0.08) ** (1 / 3))


def test_the_shape_between_the_points_does_not_matter():
    higher = Interval(0.1, 0.09, 0.11)
    x = [0.01, 0.08, 0.3]
    rising, falling = (find_crossing(x, [*pair, HELP]) for pair in ((HARM, higher), (higher, HARM)))
    assert (rising.last, rising.first) == (falling.last, falling.first) == (0.08, 0.3)
    assert rising.value > falling.value


def test_an_effect_that_is_0_more_than_once_has_no_value():
    dip, rise = Interval(-0.01, -0.03, 0.01), Interval(0.01, -0.01, 0.03)
    found = find_crossing([0.01, 0.02, 0.04, 0.08], [HARM, dip, rise, HELP])
    assert (found.last, found.first, found.value) == (0.01, 0.08, None)
    zero = Interval(0.0, -0.01, 0.01)
    assert find_crossing([0.01, 0.02, 0.04], [HARM, zero, HELP]).value == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("x", "effects", "expected"),
    [
        ([0.1, 0.2], [HARM, UNCLEAR], Crossing(0.1, None, None, (0.2,))),
        ([0.1, 0.2], [UNCLEAR, HELP], Crossing(None, 0.2, None, (0.1,))),
        ([0.1, 0.2], [UNCLEAR, UNCLEAR], Crossing(None, None, None, (0.1, 0.2))),
        ([0.1, 0.2], [HELP, HARM], Crossing(0.2, 0.1, None)),  # the other way round
        ([0.1, 0.2, 0.3], [HARM, HELP, HARM], Crossing(0.3, 0.2, None)),  # both signs on both sides
        ([], [], Crossing(None, None, None)),
    ],
)
def test_where_nothing_crosses_there_is_no_value(x, effects, expected):
    assert find_crossing(x, effects) == expected


@pytest.mark.parametrize("x", [[0.1], [0.1, 0.0], [0.1, float("nan")]])
def test_every_effect_needs_its_place(x):
    with pytest.raises(InputError, match="x must have a positive number"):
        find_crossing(x, [HARM, HELP])
