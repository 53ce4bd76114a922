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


@settings(max_examples=50)
@given(predictions(max_size=12), st.sampled_from(ESTIMATORS), st.sampled_from([None, 0.1, 2.0]))
def test_equals_reference(sample, estimator, bandwidth):
    if len(sample[1]) == 1:
        estimator = "biased"
    value = skce(*sample, estimator=estimator, bandwidth=bandwidth)
    assert value == pytest.approx(reference.skce(*sample, estimator, bandwidth), abs=1e-12)


def test_value_by_hand():
    # TV = 0.5; residuals (-1, 1) and (0.5, -0.5).
    probs, labels = torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([1, 0])
    pair = -math.exp(-0.5 / 0.25)
    assert skce(probs, labels, bandwidth=0.25) == pytest.approx(pair)
    assert skce(probs, labels, estimator="linear", bandwidth=0.25) == pytest.approx(pair)
    assert skce(probs, labels, estimator="biased", bandwidth=0.25) == pytest.approx((2 + 0.5 + 2 * pair) / 4)


def test_values_of_the_authors():
    # From the tests of CalibrationErrors.jl; there exp(-|p - q|^2 / 2), the same on two certain predictions.
    for labels, expected in (((0, 1), 0), ((0, 0), 0.5), ((1, 0), 1 - math.exp(-1)), ((1, 1), 0.5)):
        value = skce(torch.eye(2), torch.tensor(labels), estimator="biased", bandwidth=1.0)
        assert value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_value_does_not_depend_on_block_size(estimator, monkeypatch):
    sample = calibrated(101, 4, temperature=0.5)
    whole = skce(*sample, estimator=estimator)
    monkeypatch.setattr(kernel, "PAIR_BLOCK", 7)
    assert skce(*sample, estimator=estimator) == pytest.approx(whole, abs=1e-14)


def test_median_of_random_pairs_is_near_the_exact_one(monkeypatch):
    probs, _ = calibrated(1000)
    exact = kernel.median_distance(probs)
    monkeypatch.setattr(kernel, "MEDIAN_PAIRS", 100_000)
    sampled = kernel.median_distance(probs)
    assert sampled != exact
    assert sampled == pytest.approx(exact, rel=0.01)
    assert sampled == kernel.median_distance(probs)


def test_near_zero_only_for_calibrated_predictions():
    good, bad = calibrated(3000), calibrated(3000, temperature=0.5)
    assert abs(skce(*good)) < 2e-4
    assert skce(*bad) > 1e-3
    assert skce(*bad, estimator="biased") > skce(*good, estimator="biased") > 0


def test_many_classes():
    sample = calibrated(12, 1000, scale=4.0)
    assert skce(*sample) == pytest.approx(reference.skce(*sample), abs=1e-12)


def test_bad_options_raise():
    probs, labels = calibrated(4)
    with pytest.raises(InputError, match="estimator is 'quadratic'"):
        skce(probs, labels, estimator="quadratic")
    with pytest.raises(InputError, match="bandwidth is 0"):
        skce(probs, labels, bandwidth=0.0)
    with pytest.raises(InputError, match="one example"):
        skce(probs[:1], labels[:1])
