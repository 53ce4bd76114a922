import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from calmix import pool
from calmix.calibrate.isotonic import Isotonic, _rising_curve, fit_isotonic
from tests.calibrate.test_joint import members_and_labels, nll


def curves(pooled, labels, new, classes):
    """scikit-learn's own prediction, class by class."""
    return np.stack(
        [
            IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
            .fit(pooled[:, k], labels == k)
            .predict(new[:, k])
            for k in classes
        ],
        1,
    )


def test_several_classes_equal_scikit_learn():
    logits, labels = members_and_labels(0, 2.0, 1.0, examples=400, classes=4)
    others, _ = members_and_labels(1, 2.0, 1.0, examples=300, classes=4)
    expected = curves(pool(logits), labels, pool(others), range(4))
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(fit_isotonic(logits, labels)(others), expected, atol=1e-9)


def test_two_classes_have_one_curve():
    logits, labels = members_and_labels(2, 2.0, 1.0, examples=400, classes=2)
    others, _ = members_and_labels(3, 2.0, 1.0, examples=300, classes=2)
    fitted = fit_isotonic(logits, labels)
    expected = curves(pool(logits), labels, pool(others), [1])[:, 0]
    np.testing.assert_allclose(fitted(others), np.stack([1 - expected, expected], 1), atol=1e-9)
    assert fitted.nll_after == pytest.approx(nll(fitted(logits).clip(1e-300), labels), rel=1e-9)
    assert fitted.nll_after <= fitted.nll_before


def test_a_row_of_zeros_is_the_pool():
    # Curves that are 0 up to 0.5, then rise to 1.
    fitted = Isotonic(inputs=[[0.5, 1.0]] * 3, outputs=[[0.0, 1.0]] * 3, nll_before=0, nll_after=0)
    logits = np.log([[[0.4, 0.4, 0.2], [0.75, 0.15, 0.1], [0.6, 0.2, 0.2]]])
    np.testing.assert_allclose(fitted(logits), [[0.4, 0.4, 0.2], [1, 0, 0], [1, 0, 0]], rtol=1e-12)


def test_curves_of_different_lengths():
    fitted = Isotonic(
        inputs=[[0.2, 0.4, 0.8], [0.5], [0.0, 1.0]],
        outputs=[[0.1, 0.3, 0.5], [0.2], [0.0, 1.0]],
        nll_before=0,
        nll_after=0,
    )
    # By hand: 0.6 is half way from 0.3 to 0.5; a single corner is a constant; the last is the identity.
    expected = np.array([0.4, 0.2, 0.1])
    np.testing.assert_allclose(fitted(np.log([[[0.6, 0.3, 0.1]]]))[0], expected / expected.sum(), rtol=1e-9)


def test_values_that_differ_by_rounding_are_one():
    x = np.r_[0, 4e-16, 8e-16, 0.2, 0.2 + 1e-16, 0.7, 0.7, 0.9]
    hit = np.arange(len(x)) % 3 == 0
    expected = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(x, hit)
    corners = _rising_curve(x, hit)
    np.testing.assert_array_equal(corners[0], expected.X_thresholds_)
    np.testing.assert_allclose(corners[1], expected.y_thresholds_, atol=1e-12)
