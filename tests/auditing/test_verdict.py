import dataclasses

import pytest
import torch

from calmix.auditing.gaps import examples_for_half_width, gap_interval
from calmix.auditing.miscalibration import ErrorTest
from calmix.auditing.summary import GapSums, summarise
from calmix.auditing.verdict import Evidence, decide, explain, gather_evidence
from calmix.metrics import Interval
from calmix.predictions import Predictions
from tests.auditing.simulations import calibrated_pool, cancelling, shifted, with_gap

INSIDE = Interval(0.0, -0.01, 0.01, level=0.97)
WIDE = Interval(0.0, -0.03, 0.03, level=0.97)
UNDER = Interval(0.1, 0.08, 0.12, level=0.97)
OVER = Interval(-0.1, -0.12, -0.08, level=0.97)
PASSED = ErrorTest("top label", 0.01, 0.5, Interval(0.0, 0.0, 0.03))
FOUND = ErrorTest("top label", 0.05, 0.001, Interval(0.05, 0.03, 0.07), rejected=True)
TINY = ErrorTest("every class", 0.01, 0.001, Interval(0.01, 0.005, 0.015), rejected=True)
CALIBRATED = Evidence(
    members=4,
    examples=10_000,
    accuracy=0.8,
    gap=INSIDE,
    ece=0.01,
    member_gap=INSIDE,
    member_ece=0.02,
    tests=(PASSED,),
    tolerance=0.02,
    examples_needed=8_000,
)


def changed(**fields):
    return dataclasses.replace(CALIBRATED, **fields)


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (CALIBRATED, "calibrated"),
        (changed(member_gap=OVER), "calibrated"),
        (changed(gap=WIDE), "inconclusive"),
        (changed(gap=Interval(0.0, -0.02, 0.02)), "calibrated"),  # the edges of the tolerance belong to it
        (changed(gap=OVER), "over-confident"),
        (changed(gap=OVER, member_gap=UNDER), "over-confident"),
        (changed(gap=UNDER), "under-confident by pooling"),
        (changed(gap=UNDER, member_gap=OVER, ece=0.1), "under-confident by pooling"),
        (changed(gap=UNDER, member_gap=UNDER, ece=0.1, member_ece=0.05), "compounding under-confidence"),
        (changed(gap=UNDER, member_gap=UNDER, ece=0.05, member_ece=0.1), "under-confident"),
        (changed(gap=UNDER, member_gap=UNDER, ece=0.1, member_ece=0.1 - 1e-9), "under-confident"),
        (changed(gap=UNDER, members=1, member_gap=UNDER), "under-confident"),
        (changed(gap=UNDER, member_gap=Interval(0.01, 0.0, 0.02)), "under-confident by pooling"),
        # Surely not 0, and surely within the tolerance: a million examples find any gap.
        (changed(gap=Interval(-0.001, -0.0018, -0.0002)), "calibrated"),
        (changed(gap=Interval(0.001, 0.0002, 0.0018)), "calibrated"),
        # The order of the rules: a sure gap comes before errors that cancel, those before the tolerance.
        (changed(gap=OVER, tests=(FOUND,)), "over-confident"),
        (changed(tests=(FOUND,)), "mixed"),
        (changed(gap=WIDE, tests=(PASSED, FOUND)), "mixed"),
        (changed(gap=Interval(-0.01, -0.019, -0.001), tests=(FOUND,)), "mixed"),
        # An error that is sure and smaller than the tolerance does not matter.
        (changed(tests=(TINY,)), "calibrated"),
        (changed(gap=WIDE, tests=(TINY,)), "inconclusive"),
        (changed(tests=(TINY,), tolerance=0.012), "mixed"),
        (changed(tolerance=0.005), "inconclusive"),
        (changed(gap=WIDE, tolerance=0.05), "calibrated"),
    ],
)
def test_each_verdict_and_the_order_of_rules(evidence, verdict):
    assert decide(evidence) == verdict


def verdict_of(predictions, **options):
    evidence = gather_evidence(summarise(predictions.logits, predictions.labels), **options)
    return decide(evidence), evidence


@pytest.mark.parametrize(
    ("predictions", "verdict"),
    [
        (calibrated_pool(20_000, 3, 0, sharpness=4.0), "calibrated"),
        (calibrated_pool(500, 10, 0), "inconclusive"),
        (with_gap(3000, -0.06, 0), "over-confident"),
        (with_gap(3000, 0.06, 0), "under-confident"),
        (cancelling(3000, 0.08, 0), "mixed"),
        (shifted(2000, 0.1, 0), "mixed"),
    ],
)
def test_verdicts_of_predictions_whose_calibration_is_known(predictions, verdict):
    assert verdict_of(predictions)[0] == verdict


def test_two_examples_both_wrong_say_little():
    both_wrong = Predictions.from_probs(torch.tensor([[0.67, 0.33], [0.67, 0.33]]), torch.tensor([1, 1]))
    verdict, evidence = verdict_of(both_wrong)
    assert verdict == "inconclusive"
    assert f"{evidence.examples_needed:,} examples would do" in explain(evidence, verdict)


def test_a_million_examples_with_a_tiny_gap_are_calibrated():
    """From sums alone: confidence 0.8, accuracy 0.7991."""
    n, confidence, accuracy = 1_000_000.0, 0.8, 0.7991
    square = accuracy * (1 - confidence) ** 2 + (1 - accuracy) * confidence**2
    values = (n, n * (accuracy - confidence), n * square, n * confidence)
    sums = GapSums(*(torch.tensor([value], dtype=torch.float64) for value in values))
    gap = gap_interval(sums, level=0.97)
    assert gap.high < 0  # surely not 0
    assert decide(changed(gap=gap)) == "calibrated"
    assert decide(changed(gap=gap, tests=(TINY,))) == "calibrated"
    assert examples_for_half_width(sums, 0.01, level=0.97) == pytest.approx(7560, rel=0.01)


@pytest.mark.parametrize(("classes", "n", "positives"), [(2, 50, None), (2, 200, 0.05), (10, 200, None)])
def test_false_alarms_are_rare(classes, n, positives):
    alarms = 0
    for seed in range(30):
        verdict, _ = verdict_of(calibrated_pool(n, classes, seed, positives=positives), seed=seed)
        alarms += verdict not in ("calibrated", "inconclusive")
    assert alarms <= 5  # 1.5 expected


def test_the_level_is_split():
    _, evidence = verdict_of(calibrated_pool(100, 3, 0), level=0.9)
    assert evidence.gap.level == pytest.approx(0.94)
    assert [test.error.level for test in evidence.tests] == pytest.approx([0.96, 0.96])


def test_the_explanation_names_the_numbers_and_the_direction():
    text = explain(changed(gap=UNDER, ece=0.1, member_ece=0.05), "under-confident by pooling")
    assert "80.0 % of 10,000 cases and 70.0 % sure" in text
    assert "+10.0 points (97 % interval +8.0 to +12.0)" in text
    assert "averaging of members that disagree" in text
    assert "ECE 10.0 % against 5.0 %" in text


def test_one_model_is_not_called_a_pool():
    text = explain(changed(members=1, gap=OVER), "over-confident")
    assert text.startswith("The model is right in 80.0 % of 10,000 cases and 90.0 % sure")
    assert "member" not in text
    assert "pool" not in text


def test_errors_that_cancel_are_explained():
    assert "errors of both directions" in explain(changed(tests=(FOUND,)), "mixed")
    verdict, evidence = verdict_of(shifted(2000, 0.1, 0))
    assert "P(y = 1) is too low by 11.4 points" in explain(evidence, verdict)
    verdict, evidence = verdict_of(shifted(2000, -0.1, 0))
    assert "P(y = 1) is too high by" in explain(evidence, verdict)


def test_what_is_missing_is_said():
    text = explain(changed(gap=WIDE, examples=3_000), "inconclusive")
    assert "about 8,000 examples would do, 5,000 more than there are" in text
    near = explain(changed(gap=Interval(0.015, 0.005, 0.025)), "inconclusive")
    assert "the gap is near the tolerance" in near
    assert "smaller than the tolerance" in explain(changed(tests=(TINY,)), "calibrated")
