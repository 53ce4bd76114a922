"""Subsets of a deep ensemble: what a smaller ensemble would measure, without training one.

Members are independent, so that every subset of them is an ensemble of its own. The mean over all subsets of
a size has less noise than one ensemble of that size.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calmix.predictions import Predictions
from calmix.runs.influence import NUM_BINS, bin_index
from calmix.seeds import derive

Array = npt.NDArray[np.float64]
METRICS = ("accuracy", "ece", "gap", "nll")
MAX_SUBSETS = 70  # of one size: all of them up to eight members


def subset_scores(predictions: Predictions) -> Array:
    """Mean over subsets of each size 1 ... M of METRICS, (4, M)."""
    assert predictions.labels is not None, "predictions of a run have labels"
    probs = predictions.logits.double().softmax(-1).numpy()
    labels = predictions.labels.numpy()
    members = len(probs)
    rows = np.arange(len(labels))
    scores = np.empty((len(METRICS), members))
    for size in range(1, members + 1):
        scores[:, size - 1] = np.mean(
            [_scores(probs[list(subset)].mean(0), labels, rows) for subset in subsets(members, size)], axis=0
        )
    return scores


def subsets(members: int, size: int) -> list[tuple[int, ...]]:
    """All subsets of a size, or MAX_SUBSETS of them drawn with a fixed seed, each member in about as many.

    >>> subsets(3, 2)
    [(0, 1), (0, 2), (1, 2)]
    """
    if math.comb(members, size) <= MAX_SUBSETS:
        return list(itertools.combinations(range(members), size))
    draw = np.random.default_rng(derive(0, "subsets", members, size))
    chosen: list[tuple[int, ...]] = []
    while len(chosen) < MAX_SUBSETS:
        order = draw.permutation(members)
        chosen += [tuple(sorted(order[i : i + size].tolist())) for i in range(0, members - size + 1, size)]
    return chosen[:MAX_SUBSETS]


def _scores(probs: Array, labels: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> list[float]:
    confidence, prediction = probs.max(1), probs.argmax(1)
    gaps = (prediction == labels) - confidence
    ece = np.abs(np.bincount(bin_index(confidence), gaps, minlength=NUM_BINS)).sum() / len(labels)
    with np.errstate(divide="ignore"):
        nll = -np.log(probs[rows, labels]).mean()
    return [float((prediction == labels).mean()), float(ece), float(gaps.mean()), float(nll)]


@dataclass(frozen=True)
class CompoundingLaw:
    """g(M) = g(1) + (g(inf) - g(1)) (1 - 1/M): the gap of a pool of M exchangeable members.

    The spread of M members around their mean shrinks the pool's confidence by 1 - 1/M of what infinitely many
    take away, to the second order of that spread.
    """

    one: float
    infinite: float

    def __call__(self, members: float) -> float:
        return self.one + (self.infinite - self.one) * (1 - 1 / members)

    @classmethod
    def from_two(cls, one: float, two: float) -> "CompoundingLaw":
        """The forecast from single members and pairs of them.

        >>> round(CompoundingLaw.from_two(0.02, 0.03)(8), 4)
        0.0375
        """
        return cls(one, 2 * two - one)

    @classmethod
    def fit(cls, gaps: Array) -> "CompoundingLaw":
        """Least squares on the gaps of sizes 1, 2, ..."""
        share = 1 - 1 / np.arange(1, len(gaps) + 1)
        slope, intercept = np.polyfit(share, gaps, 1) if len(gaps) > 1 else (0.0, gaps[0])
        return cls(float(intercept), float(intercept + slope))
