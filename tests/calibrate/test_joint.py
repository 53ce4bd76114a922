import warnings

import numpy as np
import pytest
import torch
from scipy.special import softmax

from calmix import fit_calibrator, fit_temperature, pool
from calmix.calibrate import inputs, joint
from calmix.calibrate.inputs import ColumnBlocks
from calmix.calibrate.joint import Joint, fit_joint


def members_and_labels(seed, temperature, spread, examples=8000, members=4, classes=3):
    """Labels drawn from the model itself, at a known T and b."""
    draw = np.random.default_rng(seed)
    logits = 2 * draw.normal(size=(examples, classes)) + 1.5 * draw.normal(size=(members, examples, classes))
    return logits, draw_labels(draw, formula(logits, temperature, spread))


def formula(logits, temperature, spread):
    """The definition, in NumPy."""
    mean = logits.mean(0)
    return softmax((mean + spread * (logits - mean)) / temperature, -1).mean(0)


def draw_labels(draw, probs):
    return (draw.random((len(probs), 1)) > probs.cumsum(1)).sum(1).clip(max=probs.shape[1] - 1)


def nll(probs, labels):
    with np.errstate(divide="ignore"):
        return -np.log(probs[np.arange(len(labels)), labels]).mean()


@pytest.mark.parametrize(("temperature", "spread"), [(2.0, 1.0), (0.7, 0.0), (1.5, 2.0)])
def test_known_temperature_and_spread_are_recovered(temperature, spread):
    logits, labels = members_and_labels(0, temperature, spread)
    fitted = fit_joint(logits, labels)
    assert fitted.temperature == pytest.approx(temperature, rel=0.1)
    assert fitted.spread == pytest.approx(spread, abs=0.2)
    assert fitted.nll_after <= nll(formula(logits, temperature, spread), labels)
    np.testing.assert_allclose(fitted(logits), formula(logits, fitted.temperature, fitted.spread), rtol=1e-12)
    assert fitted.nll_after == pytest.approx(nll(fitted(logits), labels), rel=1e-12)
    assert fitted.nll_before == pytest.approx(nll(pool(logits), labels), rel=1e-12)


def test_spread_one_is_temperature_before_pooling():
    logits, labels = members_and_labels(1, 2.0, 1.0, examples=50)
    by_member = fit_temperature(logits, labels, order="member")
    same = Joint(temperature=by_member.temperature, spread=1, nll_before=0, nll_after=0)
    np.testing.assert_allclose(same(logits), by_member(logits), rtol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_never_worse_than_a_fine_grid_or_temperature_before_pooling(seed):
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(3, 12, 3)) * draw.choice([0.5, 3, 10])
    labels = draw.integers(3, size=12)
    fitted = fit_joint(logits, labels)
    grid = [
        nll(formula(logits, t, b), labels) for t in np.geomspace(0.05, 20, 40) for b in np.linspace(0, 10, 41)
    ]
    assert fitted.nll_after <= min(grid) + 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a temperature at its bound
        assert fitted.nll_after <= fit_temperature(logits, labels, order="member").nll_after + 1e-9


def test_one_member_is_a_temperature():
    logits, labels = members_and_labels(2, 2.0, 1.0, members=1, examples=100)
    fitted = fit_joint(logits, labels)
    assert fitted.spread == 1
    assert fitted.temperature == pytest.approx(fit_temperature(logits, labels).temperature, rel=1e-4)


def test_order_of_members_and_constants_do_not_matter():
    logits, labels = members_and_labels(3, 2.0, 0.5, examples=60)
    shifted = logits[::-1] + np.random.default_rng(0).normal(size=(4, 60, 1))
    fitted = fit_joint(logits, labels)
    np.testing.assert_allclose(fitted(shifted), fitted(logits), rtol=1e-9)


def test_probabilities_of_zero_of_one_member():
    logits, labels = members_and_labels(4, 1.0, 1.0, examples=60)
    logits[0, labels != 2, 2] = -np.inf
    logits[:, labels != 1, 1] = -np.inf
    probs = fit_calibrator(torch.tensor(logits), torch.tensor(labels), method="joint")(logits)
    assert np.isfinite(probs).all()
    assert (probs[labels != 1, 1] == 0).all()


@pytest.mark.parametrize("spread", [0.3, 1.0, 4.0])
def test_derivatives_are_those_of_the_likelihood(spread):
    logits, labels = members_and_labels(5, 1.0, 1.0, examples=60)
    parts, target = ColumnBlocks(torch.as_tensor(logits), joint._mean_and_away), torch.as_tensor(labels)

    def value(log_temperature, b):
        return joint._likelihood(parts, target, np.exp(log_temperature), b)[0]

    step = 1e-5
    _, slopes = joint._likelihood(parts, target, np.exp(0.4), spread, slope=True)
    differences = [
        value(0.4 + step, spread) - value(0.4 - step, spread),
        value(0.4, spread + step) - value(0.4, spread - step),
    ]
    np.testing.assert_allclose(slopes, np.array(differences) / (2 * step), rtol=1e-6, atol=1e-9)


def test_blocks_made_anew_on_every_pass_change_nothing(monkeypatch):
    logits, labels = members_and_labels(6, 2.0, 1.0, examples=90)
    kept = fit_joint(logits, labels)
    monkeypatch.setattr(inputs, "KEPT", 0)
    monkeypatch.setattr(inputs, "BLOCK", 200)
    anew = fit_joint(logits, labels)
    assert anew.temperature == pytest.approx(kept.temperature, rel=1e-6)
    assert anew.nll_after == pytest.approx(kept.nll_after, rel=1e-12)
