import pytest

from calmix import InputError
from calmix.metrics import Interval
from calmix.study.crossing import Crossing, find_crossing

HARM, HELP, UNCLEAR = Interval(0.06, 0.04, 0.08), Interval(-0.02, -0.03, -0.01), Interval(0.01, -0.01, 0.03)


def test_it_lies_between_the_last_above_and_the_first_below():
    found = find_crossing([0.3, 0.01, 0.08, 0.02], [HELP, HARM, UNCLEAR, HARM])
    assert (found.last, found.first) == (0.02, 0.3)
    # Three quarters of the way from +6 to -2 points, on a logarithmic axis.
    assert found.value == pytest.approx(0.02 * 15**0.75)


def test_the_shape_between_the_points_does_not_matter():
    higher = Interval(0.1, 0.09, 0.11)
    x = [0.01, 0.08, 0.3]
    rising, falling = (find_crossing(x, [*pair, HELP]) for pair in ((HARM, higher), (higher, HARM)))
    assert (rising.last, rising.first) == (falling.last, falling.first) == (0.08, 0.3)
    assert rising.value > falling.value


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
