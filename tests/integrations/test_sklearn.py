"""Fitted classifiers stay as they are; scikit-learn's own tools take the calibrated ensemble."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import estimator_checks

import calmix
from calmix import metrics
from calmix.errors import InputError
from calmix.integrations.sklearn import CalibratedEnsemble

X, DIGITS = load_digits(return_X_y=True)
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
Y = NAMES[DIGITS]
TRAIN, HELD_OUT, TEST = slice(0, 800), slice(800, 1300), slice(1300, None)


@pytest.fixture(scope="module")
def bayes():
    return GaussianNB(var_smoothing=0.1).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def members(bayes):
    return [
        bayes,
        *(DecisionTreeClassifier(max_leaf_nodes=n, random_state=0).fit(X[TRAIN], Y[TRAIN]) for n in (20, 40)),
    ]


def test_one_classifier_with_string_labels(bayes):
    before = pickle.dumps(bayes)
    model = CalibratedEnsemble(bayes)
    assert model.fit(X[HELD_OUT], Y[HELD_OUT]) is model
    assert pickle.dumps(bayes) == before
    assert model.classes_.tolist() == sorted(NAMES)
    probs = model.predict_proba(X[TEST])
    np.testing.assert_allclose(probs.sum(1), 1)
    assert (model.predict(X[TEST]) == bayes.predict(X[TEST])).mean() > 0.98  # ties of saturated rows aside
    assert model.score(X[TEST], Y[TEST]) == (model.predict(X[TEST]) == Y[TEST]).mean()
    assert model.n_features_in_ == 64
    labels = np.searchsorted(model.classes_, Y[TEST])
    assert metrics.ece(probs, labels) < 0.7 * metrics.ece(bayes.predict_proba(X[TEST]), labels)


@pytest.mark.parametrize(
    ("method", "order"),
    [("temperature", "pool"), ("temperature", "each"), ("joint", "pool"), ("isotonic", "pool")],
)
def test_members_equal_the_calibrator_itself(method, order):
    logistic = LogisticRegression(max_iter=2000).fit(X[TRAIN] / 16, Y[TRAIN])
    scaled = make_pipeline(MinMaxScaler(), GaussianNB(var_smoothing=0.1)).fit(X[TRAIN], Y[TRAIN])
    both = (logistic, scaled)
    model = CalibratedEnsemble(both, method=method, order=order).fit(X[HELD_OUT], Y[HELD_OUT])
    logits = [np.stack([m.predict_log_proba(X[part]) for m in both]) for part in (HELD_OUT, TEST)]
    labels = np.searchsorted(model.classes_, Y[HELD_OUT])
    fitted = calmix.fit_calibrator(logits[0], labels, method=method, order=order)
    np.testing.assert_array_equal(model.predict_proba(X[TEST]), fitted(logits[1]))


def test_classifier_without_log_probabilities(bayes):
    class Foreign:
        classes_ = bayes.classes_

        def predict_proba(self, rows):
            return bayes.predict_proba(rows).clip(1e-30, 1)

    model = CalibratedEnsemble([bayes, Foreign()]).fit(X[HELD_OUT], Y[HELD_OUT])
    assert model.predict_proba(X[TEST]).shape == (497, 10)


def test_probabilities_of_zero_are_taken(members):
    with pytest.warns(UserWarning, match="have probability 0"):
        CalibratedEnsemble(members[1:]).fit(X[HELD_OUT], Y[HELD_OUT])


def test_predictions_are_audited(members):
    predictions = CalibratedEnsemble(members).predictions(X[TEST], Y[TEST])
    assert predictions.logits.shape == (3, 497, 10)
    assert predictions.classes == tuple(sorted(NAMES))
    assert np.mean(np.array(predictions.class_names)[predictions.labels] == Y[TEST]) == 1


def test_binary_beta():
    y = np.where(DIGITS < 5, "low", "high")
    bayes = GaussianNB(var_smoothing=0.1).fit(X[TRAIN], y[TRAIN])
    model = CalibratedEnsemble(bayes, method="beta").fit(X[HELD_OUT], y[HELD_OUT])
    assert metrics.nll(model.predict_proba(X[TEST]), (y[TEST] == "low").astype(int)) < 0.6


def test_clone_keeps_the_classifiers_and_forgets_the_fit(bayes):
    model = CalibratedEnsemble(bayes, method="joint").fit(X[HELD_OUT], Y[HELD_OUT])
    copy = clone(model)
    assert copy.estimators is bayes
    assert copy.method == "joint"
    assert not hasattr(copy, "calibrator_")
    with pytest.raises(NotFittedError):
        copy.predict_proba(X[TEST])


def test_cross_validation(bayes):
    scores = cross_val_score(CalibratedEnsemble(bayes), X[800:], Y[800:], cv=3, scoring="neg_log_loss")
    assert scores.shape == (3,)
    assert (scores > -1).all()


def test_pickle(bayes):
    model = CalibratedEnsemble(bayes).fit(X[HELD_OUT], Y[HELD_OUT])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X[TEST]), model.predict_proba(X[TEST]))


@pytest.mark.parametrize(
    "name",
    [
        "check_get_params_invariance",
        "check_set_params",
        "check_no_attributes_set_in_init",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_mixin_order",
    ],
)
def test_conventions_of_scikit_learn(bayes, name):
    """Those that fit data of their own do not apply: the classifiers are fitted already."""
    getattr(estimator_checks, name)("CalibratedEnsemble", CalibratedEnsemble(bayes))


def test_parameters_and_kind(bayes):
    model = CalibratedEnsemble(bayes)
    assert is_classifier(model)
    assert model.set_params(method="joint").get_params(deep=False) == {
        "estimators": bayes,
        "method": "joint",
        "order": "pool",
    }


def test_bad_input_names_what_to_do(bayes):
    other = GaussianNB(var_smoothing=0.1).fit(X[TRAIN], DIGITS[TRAIN])
    for estimators, y, words in (
        ([], Y, "is empty"),
        ([bayes, GaussianNB()], Y, r"estimators\[1\], a GaussianNB, has no classes_"),
        ([bayes, other], Y, "same ones"),
        (LinearSVC(), Y, "without predict_proba"),
        (bayes, DIGITS, r"y\[0\] is .* none of the classes"),
        (bayes, Y[:, None], "one class label"),
        (bayes, Y[:7], "one for each row"),
    ):
        held_out = y[HELD_OUT] if len(y) > 1300 else y
        with pytest.raises(InputError, match=words):
            CalibratedEnsemble(estimators).fit(X[HELD_OUT], held_out)
    with pytest.raises(InputError, match="temperature"):
        CalibratedEnsemble(bayes, method="temprature").fit(X[HELD_OUT], Y[HELD_OUT])
