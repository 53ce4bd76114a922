import pytest

from calmix import InputError
from calmix.auditing.conditions import Condition, parse_condition

NUMBERS = {
    "ece": 0.06,
    "verdict": "calibrated",
    "nll": float("inf"),
    "pool": {"gap": -0.02, "gap_interval": [-0.03, -0.01]},
    "members": [{"gap": 0.1}, {"gap": 0.2}],
    "classes": [{"name": "bad", "gap": 0.06}, {"name": "a.b [c]", "gap": None}, {"name": "0", "gap": 0.5}],
    "remedies": [{"method": "temperature", "nll": 0.4}],
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
        ("verdict != calibrated", False),
        ("verdict == calibrated", True),
        ("verdict == 'under-confident by pooling'", False),
        ("abs(gap) > 0.01", True),
        ("gap > 0.01", False),
        ("abs( pool.gap ) > 0.02", False),
        ("classes[bad].gap > 0.05", True),
        ("classes[0].gap > 0.4", True),
        ("members[1].gap > 0.15", True),
        ("remedies[temperature].nll < 0.5", True),
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ece > nan", "nothing compares with nan"),
        ("verdict > calibrated", "== or !="),
        ("verdict == callibrated", "did you mean 'calibrated'"),
    ],
)
def test_what_could_never_hold_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_condition(text)


def test_a_value_that_is_missing_cannot_be_decided():
    with pytest.raises(InputError, match="cannot be decided"):
        parse_condition("classes[a.b [c]].gap > 0").holds(NUMBERS)
    with pytest.raises(InputError, match="unknown name"):
        parse_condition("classes[worse].gap > 0").holds(NUMBERS)


def test_names_are_checked_before_the_numbers_are_known():
    rows = ["bad", "good"]
    parse_condition("classes[good].gap > 0").check(NUMBERS, rows)
    parse_condition("abs(gap) > 0").check(NUMBERS, rows)
    for text, message in {
        "classes[god].gap > 0": "did you mean 'good'",
        "classes[good].gab > 0": "unknown name",
        "eec > 0": "did you mean 'ece'",
    }.items():
        with pytest.raises(InputError, match=message):
            parse_condition(text).check(NUMBERS, rows)


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(
        InputError, match=r"unknown name in a condition 'pool\.gaps'; did you mean 'pool\.gap'"
    ):
        parse_condition("pool.gaps > 1").holds(NUMBERS)


def test_the_text_of_a_condition_is_read_back():
    condition = Condition("pool.gap", ">=", -0.05)
    assert str(condition) == "pool.gap >= -0.05"
    assert parse_condition(str(condition)) == condition


@pytest.mark.parametrize("text", ["verdct != calibrated", "Verdict == 'over-confident'", "state != mixed"])
def test_a_misspelt_verdict_names_the_verdict(text):
    with pytest.raises(InputError, match="did you mean 'verdict'"):
        parse_condition(text)
