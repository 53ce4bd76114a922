import math

import numpy as np
import pytest
import torch
from hypothesis import given
from sklearn.isotonic import IsotonicRegression

from calmix.errors import InputError
from calmix.metrics import Refinement, brier_parts, decomposition, nll, refinement
from tests.metrics.samples import calibrated, predictions


@given(predictions())
def test_brier_parts_add_up(sample):
    probs, labels = sample
    hit = (probs.numpy().argmax(1) == labels.numpy()).astype(float)
    confidence = probs.double().amax(1).numpy()
    parts = brier_parts(probs, labels)
    score = np.mean((confidence - hit) ** 2)
    assert parts.miscalibration - parts.discrimination + parts.uncertainty == pytest.approx(score, abs=1e-14)
    assert parts.uncertainty == pytest.approx(hit.mean() * (1 - hit.mean()), abs=1e-14)
    # The regression is the best increasing function: neither the identity nor a constant is better.
    assert parts.miscalibration >= -1e-14
    assert -1e-14 <= parts.discrimination <= parts.uncertainty + 1e-14
    # By rank: scikit-learn joins values that differ by rounding alone.
    rank = np.unique(confidence, return_inverse=True)[1]
    peer = IsotonicRegression().fit(rank, hit).predict(rank)
    assert parts.miscalibration == pytest.approx(score - np.mean((peer - hit) ** 2), abs=1e-12)


def test_brier_parts_by_hand():
    # Hits 0 1 0 1 at rising confidence: the middle two violate the order and share 1/2.
    confidence = torch.tensor([0.55, 0.65, 0.75, 0.95], dtype=torch.float64)
    probs = torch.stack([confidence, 1 - confidence], 1)
    parts = brier_parts(probs, torch.tensor([1, 0, 1, 0]))
    least, score = (0.25 + 0.25) / 4, (0.55**2 + 0.35**2 + 0.75**2 + 0.05**2) / 4
    assert parts.uncertainty == 0.25
    assert parts.discrimination == pytest.approx(0.25 - least)
    assert parts.miscalibration == pytest.approx(score - least)


def test_equal_confidences_share_a_value():
    """In either order: a hit after a miss at the same confidence is no discrimination."""
    probs = torch.tensor([[0.75, 0.25]] * 2)
    for labels in ([0, 1], [1, 0]):
        assert brier_parts(probs, torch.tensor(labels)).discrimination == 0


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_refinement_is_the_likelihood_at_the_true_temperature(temperature):
    true, labels = calibrated(20_000, 4)
    probs, _ = calibrated(20_000, 4, temperature=temperature)
    parts = refinement(probs, labels)
    assert parts.calibration + parts.refinement == pytest.approx(nll(probs, labels), rel=1e-12)
    assert parts.refinement == pytest.approx(nll(true, labels), abs=1e-4)
    # Temperature changes what is repaired, not what is left.
    assert parts.refinement == pytest.approx(refinement(true, labels).refinement, abs=1e-8)


def test_calibrated_predictions_have_nothing_to_repair():
    parts = [refinement(*calibrated(500, 3, seed=seed)).calibration for seed in range(20)]
    assert np.mean(parts) < 0 < max(parts)  # cross-fitted: no gain from noise
    assert max(map(abs, parts)) < 0.02


def test_temperatures_of_large_samples_are_fitted_on_some(monkeypatch):
    sample = calibrated(20_000, 3, temperature=0.5)
    value = refinement(*sample)
    monkeypatch.setattr(decomposition, "MAX_FIT", 4000)
    assert value != refinement(*sample)
    assert refinement(*sample).refinement == pytest.approx(value.refinement, abs=1e-3)


def test_refinement_of_a_label_with_probability_zero():
    probs = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])
    assert refinement(probs, torch.tensor([1, 0, 1])) == Refinement(0.0, math.inf)
    certain = refinement(torch.eye(2)[[0, 1, 1]], torch.tensor([0, 1, 1]))
    assert (certain.calibration, certain.refinement) == (0, 0)


def test_refinement_of_one_example_raises():
    with pytest.raises(InputError, match="probs has one example"):
        refinement(torch.tensor([[0.5, 0.5]]), torch.tensor([0]))
