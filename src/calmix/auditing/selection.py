"""The calibrator that cross-validation recommends."""

import warnings

import torch
from torch import Tensor

from calmix.calibrate import fit_calibrator
from calmix.calibrate.inputs import log_loss, log_pool_rows
from calmix.errors import InputError
from calmix.predictions import Predictions
from calmix.seeds import generator

FOLDS = 5
MAX_EXAMPLES = 20_000
METHODS = ("none", "temperature", "beta", "joint", "vector", "isotonic")  # the simplest first
MIN_PER_CLASS, MIN_ISOTONIC = 20, 1_000  # examples that "vector" and "isotonic" need


def recommend_method(predictions: Predictions, *, seed: int = 0) -> tuple[str, dict[str, float]]:
    """The simplest method whose cross-validated NLL is within one standard error of the best, and all NLLs.

    "none" is doing nothing.
    """
    assert predictions.labels is not None
    members, examples, classes = predictions.logits.shape
    if examples < 2 * FOLDS:
        raise InputError(
            f"{examples} examples are too few to choose a method: at least {2 * FOLDS}, or name one"
        )
    order = torch.randperm(examples, generator=generator(seed, "calibrate", "auto"))[:MAX_EXAMPLES]
    logits, labels = predictions.logits[:, order], predictions.labels[order]
    possible = {
        "beta": classes == 2,
        "joint": members > 1,
        "vector": len(order) >= MIN_PER_CLASS * classes,
        "isotonic": len(order) >= MIN_ISOTONIC,
    }
    losses = {m: _losses(m, logits, labels) for m in METHODS if possible.get(m, True)}
    means = {name: float(loss.mean()) for name, loss in losses.items()}
    best = min(means, key=lambda name: (means[name], METHODS.index(name)))
    for name, loss in losses.items():
        difference = loss - losses[best]
        if name == best or float(difference.mean()) <= float(difference.std()) / len(loss) ** 0.5:
            return name, means
    raise AssertionError("the best is within noise of itself")


def _losses(method: str, logits: Tensor, labels: Tensor) -> Tensor:
    """-log p at the label of each example, by a calibrator that was fitted without it."""
    if method == "none":
        return log_loss(log_pool_rows(logits), labels)
    losses = torch.empty(len(labels), dtype=torch.float64)
    fold = torch.arange(len(labels)) % FOLDS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of temperatures at the bound of their range
        for k in range(FOLDS):
            seen, unseen = fold != k, fold == k
            fitted = fit_calibrator(logits[:, seen], labels[seen], method=method)  # type: ignore[arg-type]
            losses[unseen] = log_loss(fitted(logits[:, unseen].double()).log(), labels[unseen])
    return losses
