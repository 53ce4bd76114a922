import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import brentq

from calmix.metrics import smooth, smooth_ece
from calmix.metrics.sample import Sample
from tests.metrics.samples import calibrated


def two_columns(confidence, hit):
    """probs (N, 2) with these confidences, all at least one half, and labels that hit or miss."""
    return np.stack([confidence, 1 - confidence], axis=1), (1 - hit).astype(np.int64)


def direct(t, confidence, residual, s):
    """The smoothed residuals at t (T,): a Gaussian at c, and its images at c + 2k and -c + 2k."""
    images = [sign * confidence + 2 * k for k in range(-3, 4) for sign in (1, -1)]
    density = sum(np.exp(-0.5 * ((t[:, None] - c) / s) ** 2) for c in images) / (s * (2 * np.pi) ** 0.5)
    return density @ residual / len(residual)


@pytest.mark.parametrize("s", [0.02, 0.1, 0.7])
def test_equals_the_direct_sum(s):
    probs, labels = calibrated(60, 3, temperature=0.6)
    confidence, hit = probs.amax(1).numpy(), (probs.argmax(1) == labels).numpy()
    value = smooth._smoothed(smooth._cosines(smooth._masses(Sample(probs, labels))), s)
    curve = np.abs(direct(np.linspace(0, 1, smooth.GRID + 1), confidence, confidence - hit, s))
    expected = (curve.sum() - (curve[0] + curve[-1]) / 2) / smooth.GRID
    assert value == pytest.approx(expected, abs=1e-9)


def test_equals_quadrature_and_its_root():
    probs, labels = calibrated(40, 3, temperature=0.6, seed=1)
    confidence, hit = probs.amax(1).numpy(), (probs.argmax(1) == labels).numpy()

    def error(s):
        return quad(
            lambda t: abs(direct(np.array([t]), confidence, confidence - hit, s)[0]), 0, 1, limit=200
        )[0]

    assert smooth_ece(probs, labels) == pytest.approx(brentq(lambda s: error(s) - s, 0.01, 1), abs=1e-6)


@pytest.mark.parametrize(
    ("n", "power", "relplot"),
    [(500, 1.0, 0.021054), (500, 2.0, 0.161476), (2000, 1.5, 0.091743), (2000, 4.0, 0.363029)],
)
def test_equals_relplot(n, power, relplot):
    """Values of relplot's smECE; it searches the bandwidth on a mesh."""
    i = np.arange(n)
    confidence = 0.5 + 0.5 * ((i * 0.6180339887498949) % 1)
    hit = (i * 0.7548776662466927) % 1 < confidence**power
    assert smooth_ece(*two_columns(confidence, hit)) == pytest.approx(relplot, abs=1e-3)


def test_value_by_hand():
    # One residual of 0.25 everywhere of the same sign: smoothing keeps its integral.
    probs = torch.tensor([[0.75, 0.25]] * 4)
    assert smooth_ece(probs, torch.tensor([0, 0, 1, 1])) == pytest.approx(0.25, abs=1e-9)
    assert smooth_ece(probs, torch.tensor([0, 0, 0, 1])) == pytest.approx(0, abs=1e-9)
    certain = torch.eye(2)[[0, 1, 1]]
    assert smooth_ece(certain, torch.tensor([0, 1, 1])) == pytest.approx(0, abs=1e-12)
    assert smooth_ece(certain, torch.tensor([1, 0, 0])) == pytest.approx(1, abs=1e-9)


def test_close_to_a_finer_grid(monkeypatch):
    """The bandwidth of a large calibrated sample is small, where a grid is worst."""
    probs, labels = calibrated(200_000, 3)
    value = smooth_ece(probs.float(), labels)
    monkeypatch.setattr(smooth, "GRID", 1 << 18)
    assert 0.0005 < value < 0.01
    assert value == pytest.approx(smooth_ece(probs, labels), abs=1e-6)


def test_order_and_blocks_do_not_matter():
    probs, labels = calibrated(300, 4, temperature=0.5)
    value = smooth_ece(probs, labels)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    assert smooth_ece(probs[order], labels[order]) == pytest.approx(value, abs=1e-10)
    assert smooth_ece(probs.repeat(3, 1), labels.repeat(3)) == pytest.approx(value, abs=1e-10)
