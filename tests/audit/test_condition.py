import pytest

from calmix import InputError
from calmix.audit.condition import Condition, parse_condition

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
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(InputError, match=r"such as 'ece > 0\.05'"):
        parse_condition(text)


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(InputError, match=r"unknown name in --fail-if 'pool\.gaps'; did you mean 'pool\.gap'"):
        parse_condition("pool.gaps > 1").holds(NUMBERS)
    with pytest.raises(InputError, match="verdict"):
        parse_condition("verdict > 1").holds(NUMBERS)


def test_a_condition_says_itself():
    assert str(Condition("ece", ">", 0.05)) == "ece > 0.05"
