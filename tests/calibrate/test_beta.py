import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from calmix import InputError, pool
from calmix.calibrate.beta import fit_beta
from tests.calibrate.test_joint import nll


def binary(seed, a, b, c, examples=20_000):
    """Two members with one prediction; labels drawn at logit P = a log p - b log(1 - p) + c."""
    draw = np.random.default_rng(seed)
    p = draw.beta(0.8, 0.8, size=examples).clip(1e-9, 1 - 1e-9)
    labels = (draw.random(examples) < expit(a * np.log(p) - b * np.log1p(-p) + c)).astype(int)
    return np.log(np.stack([1 - p, p], 1))[None].repeat(2, 0), labels, p


def by_dropping(p, labels):
    """The paper's rule: logistic regression; a negative slope is dropped, and the other fitted again."""
    features = np.stack([np.log(p), -np.log1p(-p)], 1)

    def fit(columns):
        model = LogisticRegression(C=1e10, tol=1e-10, max_iter=10_000).fit(features[:, columns], labels)
        return dict(zip(columns, model.coef_[0], strict=True)), model.intercept_[0]

    slopes, offset = fit([0, 1])
    negative = [k for k, slope in slopes.items() if slope < 0]
    if negative:
        slopes, offset = fit([1 - negative[0]])
    return slopes.get(0, 0.0), slopes.get(1, 0.0), offset


def test_known_numbers_are_recovered():
    logits, labels, p = binary(0, 0.6, 1.5, 0.3)
    fitted = fit_beta(logits, labels)
    np.testing.assert_allclose([fitted.a, fitted.b, fitted.c], [0.6, 1.5, 0.3], atol=0.08)
    expected = expit(fitted.a * np.log(p) - fitted.b * np.log1p(-p) + fitted.c)
    np.testing.assert_allclose(fitted(logits)[:, 1], expected, rtol=1e-9)
    np.testing.assert_allclose(fitted(logits).sum(1), 1, rtol=1e-12)
    assert fitted.nll_after == pytest.approx(nll(fitted(logits), labels), rel=1e-9)
    assert fitted.nll_before == pytest.approx(nll(pool(logits), labels), rel=1e-9)


@pytest.mark.parametrize(("a", "b"), [(0.6, 1.5), (-0.4, 0.8), (0.7, -0.5)])
def test_equals_dropping_the_negative_slope(a, b):
    logits, labels, p = binary(1, a, b, -0.2, examples=2000)
    fitted = fit_beta(logits, labels)
    np.testing.assert_allclose([fitted.a, fitted.b, fitted.c], by_dropping(p, labels), atol=2e-3)


def test_reversed_predictions_become_the_base_rate():
    logits, labels, _ = binary(2, -1, -1, 0, examples=500)
    fitted = fit_beta(logits, labels)
    assert (fitted.a, fitted.b) == (0, 0)
    assert expit(fitted.c) == pytest.approx(labels.mean(), abs=1e-5)


def test_separable_data_end_at_the_bounds():
    logits = np.log([[[0.4, 0.6], [0.7, 0.3], [0.2, 0.8]]])
    fitted = fit_beta(logits, np.array([1, 0, 1]))
    assert max(fitted.a, fitted.b) <= 20
    assert fitted.nll_after < 0.01


def test_three_classes_raise():
    with pytest.raises(InputError, match="logits has 3 classes: beta is for 2"):
        fit_beta(np.zeros((1, 4, 3)), np.array([0, 1, 2, 0]))
