import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calmix.errors import InputError
from calmix.metrics import kernel, skce
from tests.metrics import reference
from tests.metrics.samples import calibrated, predictions

ESTIMATORS = ["biased", "unbiased", "linear"]


@settings(deadline=None, max_examples=50)
@given(predictions(most=12), st.sampled_from(ESTIMATORS), st.sampled_from([None, 0.1, 2.0]))
def test_it_follows_the_definition(sample, estimator, bandwidth):
    if len(sample[1]) == 1:
        estimator = "biased"
    found = skce(*sample, estimator=estimator, bandwidth=bandwidth)
    assert found == pytest.approx(reference.skce(*sample, estimator, bandwidth), abs=1e-12)


def test_by_hand():
    # TV = 0.5; residuals (-1, 1) and (0.5, -0.5).
    probs, labels = torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([1, 0])
    pair = -math.exp(-0.5 / 0.25)
    assert skce(probs, labels, bandwidth=0.25) == pytest.approx(pair)
    assert skce(probs, labels, estimator="linear", bandwidth=0.25) == pytest.approx(pair)
    assert skce(probs, labels, estimator="biased", bandwidth=0.25) == pytest.approx((2 + 0.5 + 2 * pair) / 4)


def test_the_authors_own_cases():
    # From the tests of CalibrationErrors.jl; there exp(-|p - q|^2 / 2), the same on two certain predictions.
    for labels, expected in (((0, 1), 0), ((0, 0), 0.5), ((1, 0), 1 - math.exp(-1)), ((1, 1), 0.5)):
        found = skce(torch.eye(2), torch.tensor(labels), estimator="biased", bandwidth=1.0)
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_blocks_of_pairs_add_up(estimator, monkeypatch):
    sample = calibrated(101, 4, temperature=0.5)
    whole = skce(*sample, estimator=estimator)
    monkeypatch.setattr(kernel, "SIDE", 7)
    assert skce(*sample, estimator=estimator) == pytest.approx(whole, abs=1e-14)


def test_the_median_of_a_random_million_is_near_that_of_all(monkeypatch):
    probs, _ = calibrated(1000)
    whole = kernel.median_distance(probs)
    monkeypatch.setattr(kernel, "PAIRS", 100_000)
    some = kernel.median_distance(probs)
    assert some != whole
    assert some == pytest.approx(whole, rel=0.01)
    assert some == kernel.median_distance(probs)


def test_calibrated_predictions_are_near_zero():
    good, bad = calibrated(3000), calibrated(3000, temperature=0.5)
    assert abs(skce(*good)) < 2e-4
    assert skce(*bad) > 1e-3
    assert skce(*bad, estimator="biased") > skce(*good, estimator="biased") > 0


def test_many_classes():
    sample = calibrated(12, 1000, scale=4.0)
    assert skce(*sample) == pytest.approx(reference.skce(*sample), abs=1e-12)


def test_bad_options():
    probs, labels = calibrated(4)
    with pytest.raises(InputError, match="estimator is 'quadratic'"):
        skce(probs, labels, estimator="quadratic")
    with pytest.raises(InputError, match="bandwidth is 0"):
        skce(probs, labels, bandwidth=0.0)
    with pytest.raises(InputError, match="one example"):
        skce(probs[:1], labels[:1])
