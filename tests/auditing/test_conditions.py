import pytest

from calmix import InputError
from calmix.auditing.conditions import Condition, parse_condition

NUMBERS = {
    "ece": 0.06,
    "verdict": "calibrated",
    "nll": float("inf"),
    "pool": {"gap": -0.02, "gap_interval": [-0.03, -0.01]},
    "members": [{"gap": 0.1}, {"gap": 0.2}],
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("ece > 0.05", True),
        ("ece>0.06", False),
        ("ece >= 0.06", True),
        ("ece < 1e-1", True),
        ("ece <= 0.05", False),
        ("ece == 0.06", True),
        ("ece != 0.06", False),
        ("pool.gap < -0.01", True),
        (" members.1.gap > .15 ", True),
        ("members.0.gap > .15", False),
        ("pool.gap_interval.1 < 0", True),
        ("nll > 100", True),
    ],
)
def test_conditions(text, holds):
    assert parse_condition(text).holds(NUMBERS) is holds


@pytest.mark.parametrize(
    "text",
    ["", "ece", "ece > ", "> 1", "ece > five", "ece = 1", "ece > 1 > 2", "__import__('os') > 1", "1 < ece"],
)
def test_other_texts_are_refused(text):
    with pytest.raises(InputError, match=r"such as 'ece > 0\.05'"):
        parse_condition(text)


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(
        InputError, match=r"unknown name in a condition 'pool\.gaps'; did you mean 'pool\.gap'"
    ):
        parse_condition("pool.gaps > 1").holds(NUMBERS)
    with pytest.raises(InputError, match="verdict"):
        parse_condition("verdict > 1").holds(NUMBERS)


def test_the_text_of_a_condition_is_read_back():
    condition = Condition("pool.gap", ">=", -0.05)
    assert str(condition) == "pool.gap >= -0.05"
    assert parse_condition(str(condition)) == condition
