import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from calmix.calibrate import vector
from calmix.calibrate.vector import fit_vector
from tests.calibrate.test_joint import draw_labels, nll


def scaled(seed, weight, bias, examples=20_000):
    """One member whose labels are drawn from softmax(w * log p + b)."""
    draw = np.random.default_rng(seed)
    logits = 1.5 * draw.normal(size=(1, examples, len(weight)))
    return logits, draw_labels(draw, softmax(weight * log_softmax(logits[0], 1) + bias, 1))


def test_known_weights_and_biases_are_recovered():
    weight, bias = np.array([0.5, 1.0, 1.5]), np.array([0.4, -0.1, -0.3])
    logits, labels = scaled(0, weight, bias)
    fitted = fit_vector(logits, labels)
    np.testing.assert_allclose(fitted.weight, weight, atol=0.08)
    np.testing.assert_allclose(fitted.bias - fitted.bias.mean(), bias - bias.mean(), atol=0.08)
    expected = softmax(fitted.weight.numpy() * log_softmax(logits[0], 1) + fitted.bias.numpy(), 1)
    np.testing.assert_allclose(fitted(logits), expected, rtol=1e-9)
    assert fitted.nll_after == pytest.approx(nll(expected, labels), rel=1e-9)


def test_slope_is_that_of_autograd():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(30, 4, generator=draw, dtype=torch.float64).log_softmax(1)
    labels = torch.randint(4, (30,), generator=draw)
    point = torch.randn(8, generator=draw, dtype=torch.float64, requires_grad=True)
    loss = torch.nn.functional.cross_entropy(x * point[:4] + point[4:], labels)
    loss.backward()
    value, slope = vector._likelihood(x, labels, point.detach())
    assert value == pytest.approx(loss.item(), rel=1e-12)
    torch.testing.assert_close(slope, point.grad, rtol=1e-10, atol=1e-14)


def test_slope_of_the_penalised_loss_is_zero_at_the_fit():
    logits, labels = scaled(1, np.array([0.5, 1.0, 1.5]), np.zeros(3), examples=300)
    fitted = fit_vector(logits, labels)
    point = torch.cat([fitted.weight, fitted.bias])
    x = torch.tensor(logits[0]).log_softmax(1)
    _, slope = vector._likelihood(x, torch.tensor(labels), point)
    pulled = slope + fitted.pull / 300 * torch.cat([fitted.weight - 1, fitted.bias])
    assert pulled.abs().max() < 1e-5


def test_pull_is_strong_where_nothing_is_to_be_gained():
    calibrated, labels = scaled(2, np.ones(10), np.zeros(10), examples=100)
    skewed, others = scaled(2, np.ones(10), np.linspace(-2, 2, 10), examples=1000)
    assert fit_vector(calibrated, labels).pull > fit_vector(skewed, others).pull


def test_thousand_classes():
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(1000, (200,), generator=draw)
    logits = (torch.randn(200, 1000, generator=draw) + 8 * torch.eye(1000)[labels])[None]
    fitted = fit_vector(logits, labels)
    assert fitted.nll_after <= fitted.nll_before
    assert fitted(logits).shape == (200, 1000)
