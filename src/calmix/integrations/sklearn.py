"""scikit-learn: calibrate classifiers that are fitted already, one of them or several as members."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from calmix.calibrate import Method, Order, fit_calibrator
from calmix.errors import InputError
from calmix.predictions import Predictions

Floats = npt.NDArray[np.float64]


class CalibratedEnsemble(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fitted classifiers, pooled and calibrated on held-out data; the classifiers stay as they are.

    `estimators` is one fitted classifier or a sequence of them, the members: anything with `classes_` and
    `predict_proba`, or `predict_log_proba`, which is preferred because it does not round to 0. `fit(X, y)`
    fits the calibrator alone, so X and y must not be the data that the classifiers were fitted to. `method`
    and `order` are those of `calmix.fit_calibrator`. `sklearn.base.clone` keeps the fitted classifiers, so
    that cross-validation judges the calibration.

    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_digits(return_X_y=True)
    >>> bayes = GaussianNB(var_smoothing=0.1).fit(X[:800], y[:800])
    >>> model = CalibratedEnsemble(bayes).fit(X[800:1300], y[800:1300])
    >>> model.calibrator_.temperature > 2  # naive Bayes is over-confident
    True
    >>> model.predict_proba(X[1300:]).shape
    (497, 10)
    """

    def __init__(self, estimators: Any, *, method: Method = "temperature", order: Order = "pool") -> None:
        self.estimators = estimators
        self.method = method
        self.order = order

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the calibrator to held-out X, whatever the classifiers take, and y (N,), class labels."""
        classes = _common_classes(self._members())
        labels = _class_numbers(y, classes)
        logits = self._logits(X, classes)
        self.calibrator_ = fit_calibrator(logits, labels, method=self.method, order=self.order)
        self.classes_ = classes
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self._members()[0], name):
                setattr(self, name, getattr(self._members()[0], name))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Calibrated pooled probabilities (N, C), in the order of `classes_`."""
        check_is_fitted(self)
        probs: Floats = self.calibrator_(self._logits(X, self.classes_))
        return probs

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of the largest calibrated probability, (N,)."""
        probs = self.predict_proba(X)
        return np.asarray(self.classes_[probs.argmax(1)])

    def predictions(self, X: Any, y: Any = None) -> Predictions:
        """The members' uncalibrated predictions, as `calmix.audit` takes them."""
        classes = _common_classes(self._members())
        labels = None if y is None else _class_numbers(y, classes)
        names = tuple(map(str, classes))
        return Predictions(self._logits(X, classes), labels, classes=names)  # type: ignore[arg-type]

    def _members(self) -> list[Any]:
        one = hasattr(self.estimators, "predict_proba") or not isinstance(self.estimators, Sequence)
        members = [self.estimators] if one else list(self.estimators)
        if not members:
            raise InputError("estimators is empty; give a fitted classifier, or a list of them")
        return members

    def _logits(self, X: Any, classes: npt.NDArray[Any]) -> Floats:
        """Log-probabilities (M, N, C), which are logits."""
        members = [_log_probs(member, X) for member in self._members()]
        expected = (len(members[0]), len(classes))
        for k, log_probs in enumerate(members):
            if log_probs.shape != expected:
                raise InputError(f"estimators[{k}] gave the shape {log_probs.shape}, not {expected}")
        return np.stack(members)

    def __sklearn_clone__(self) -> "CalibratedEnsemble":
        return CalibratedEnsemble(self.estimators, method=self.method, order=self.order)


def _log_probs(member: Any, X: Any) -> Floats:
    with np.errstate(divide="ignore"):  # a probability of 0 has the logarithm -inf
        if hasattr(member, "predict_log_proba"):
            return np.asarray(member.predict_log_proba(X), dtype=np.float64)
        return np.log(np.asarray(member.predict_proba(X), dtype=np.float64))


def _common_classes(members: list[Any]) -> npt.NDArray[Any]:
    for k, member in enumerate(members):
        if not hasattr(member, "predict_proba"):
            raise InputError(
                f"estimators[{k}] is a {type(member).__name__} without predict_proba; give a classifier that "
                "has it, e.g. SVC(probability=True)"
            )
        if not hasattr(member, "classes_"):
            raise InputError(
                f"estimators[{k}], a {type(member).__name__}, has no classes_; fit it before, on other data"
            )
        if not np.array_equal(member.classes_, members[0].classes_):
            raise InputError(
                f"estimators[{k}] has the classes {member.classes_}, estimators[0] {members[0].classes_}; "
                "members need the same ones"
            )
    return np.asarray(members[0].classes_)


def _class_numbers(y: Any, classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise InputError(f"y has shape {labels.shape}; give one class label for each example, (N,)")
    number = {label: k for k, label in enumerate(classes.tolist())}
    for i, label in enumerate(labels.tolist()):
        if label not in number:
            raise InputError(f"y[{i}] is {label!r}, none of the classes {classes.tolist()[:12]}")
    return np.array([number[label] for label in labels.tolist()], dtype=np.int64)
