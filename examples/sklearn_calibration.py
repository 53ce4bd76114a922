"""Calibrate scikit-learn classifiers that are fitted already, one or several. Takes a few seconds.

python examples/sklearn_calibration.py
"""

from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB

import calmix
from calmix.integrations.sklearn import CalibratedEnsemble

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def main(seed=0):
    pixels, digits = load_digits(return_X_y=True)
    X, y = pixels / 16, [NAMES[k] for k in digits]
    train, held_out, test = slice(0, 800), slice(800, 1300), slice(1300, None)
    members = [
        GaussianNB(var_smoothing=0.05),
        LogisticRegression(max_iter=1000),
        ExtraTreesClassifier(100, min_samples_leaf=3, random_state=seed),
    ]
    for member in members:
        member.fit(X[train], y[train])

    for name, estimators in (("naive Bayes", members[0]), ("three members", members)):
        model = CalibratedEnsemble(estimators).fit(X[held_out], y[held_out])
        predictions = model.predictions(X[test], y[test])
        before, after = calmix.pool(predictions.logits), model.predict_proba(X[test])
        ece = [calmix.metrics.ece(probs, predictions.labels) for probs in (before.numpy(), after)]
        temperature, accuracy = model.calibrator_.temperature, model.score(X[test], y[test])
        print(f"{name}: ECE {ece[0]:.3f} -> {ece[1]:.3f} at temperature {temperature:.2f}", end=", ")
        print(f"log loss {log_loss(y[test], after, labels=model.classes_):.3f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
