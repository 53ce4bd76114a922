import dataclasses

import pytest

from calmix.auditing.verdict import Evidence, decide, explain
from calmix.metrics import Interval

NOTHING = Interval(0.0, -0.01, 0.01)
UNDER = Interval(0.1, 0.08, 0.12)
OVER = Interval(-0.1, -0.12, -0.08)
CALIBRATED = Evidence(
    members=4,
    accuracy=0.8,
    gap=NOTHING,
    ece=0.01,
    dce=Interval(0.0, 0.0, 0.005),
    member_gap=NOTHING,
    member_ece=0.02,
)


def changed(**fields):
    return dataclasses.replace(CALIBRATED, **fields)


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (CALIBRATED, "calibrated"),
        (changed(member_gap=OVER), "calibrated"),
        (changed(gap=OVER), "over-confident"),
        (changed(gap=OVER, member_gap=UNDER), "over-confident"),
        (changed(gap=UNDER), "under-confident by pooling"),
        (changed(gap=UNDER, member_gap=OVER, ece=0.1), "under-confident by pooling"),
        (changed(gap=UNDER, member_gap=UNDER, ece=0.1, member_ece=0.05), "compounding under-confidence"),
        (changed(gap=UNDER, member_gap=UNDER, ece=0.05, member_ece=0.1), "under-confident"),
        (changed(gap=UNDER, member_gap=UNDER, ece=0.1, member_ece=0.1 - 1e-9), "under-confident"),
        (changed(gap=UNDER, members=1, member_gap=UNDER), "under-confident"),
        # 0 on the edge of an interval is still in it.
        (changed(gap=Interval(0.01, 0.0, 0.02)), "calibrated"),
        (changed(gap=UNDER, member_gap=Interval(0.01, 0.0, 0.02)), "under-confident by pooling"),
        # Both directions cancel: the debiased error decides whether that is calibrated.
        (changed(gap=Interval(-0.001, -0.01, 0.01), dce=Interval(0.1, 0.09, 0.11)), "over-confident"),
        (changed(gap=Interval(0.001, -0.01, 0.01), dce=Interval(0.1, 0.09, 0.11)), "under-confident"),
        (changed(dce=Interval(0.1, 0.0, 0.2)), "calibrated"),
        (changed(dce=Interval(0.009, 0.008, 0.0095)), "calibrated"),
    ],
)
def test_each_verdict(evidence, verdict):
    assert decide(evidence) == verdict


def test_the_explanation_names_the_numbers_and_the_direction():
    text = explain(changed(gap=UNDER, ece=0.1, member_ece=0.05), "under-confident by pooling")
    assert "80.0 % of cases and 70.0 % sure" in text
    assert "+10.0 points (interval +8.0 to +12.0)" in text
    assert "averaging of members that disagree" in text
    assert "ECE 10.0 % against 5.0 %" in text


def test_one_model_is_not_called_a_pool():
    text = explain(changed(members=1, gap=OVER), "over-confident")
    assert text.startswith("The model is right in 80.0 % of cases and 90.0 % sure")
    assert "member" not in text
    assert "pool" not in text


def test_errors_that_cancel_are_explained():
    cancelling = changed(dce=Interval(0.1, 0.09, 0.11))
    assert "the two cancel" in explain(cancelling, decide(cancelling))
