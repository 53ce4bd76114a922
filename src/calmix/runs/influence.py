"""Influence of each test image on a run's numbers, to first order.

A number of n images has the standard error std(influence) / sqrt(n). Two runs on the same images are compared
by the difference of their influences, so that an image that is hard for both makes neither look worse. ECE is
a sum of absolute values: where a bin's gap is near 0 its linear influence is too large, never too small.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from calmix import files
from calmix.corruptions import CORRUPTIONS, SEVERITIES
from calmix.errors import InputError
from calmix.metrics.binning import equal_width
from calmix.predictions import Predictions, pool

Array = npt.NDArray[np.float64]
NUM_BINS = 15
DRAWN_SEVERITIES = (3, 5)  # of the paper's figure of deep ensembles under corruption


@dataclass(frozen=True, eq=False)
class TopLabels:
    """The predicted class, its probability, and whether it is right: prediction, confidence and hit
    (1 + M, N), first of the pool, then of each member. One row may stand for the mean of several members."""

    labels: npt.NDArray[np.int64]
    prediction: npt.NDArray[np.int64]
    confidence: Array
    hit: Array

    @classmethod
    def of(cls, predictions: Predictions) -> "TopLabels":
        assert predictions.labels is not None, "predictions of a run have labels"
        logits = predictions.logits.double()
        top = torch.stack([pool(logits), *(member.softmax(-1) for member in logits)]).max(-1)
        labels, prediction = predictions.labels.numpy(), top.indices.numpy()
        hit = np.asarray(prediction == labels, dtype=np.float64)
        return cls(labels, prediction, top.values.numpy(), hit)

    def class_accuracy(self, classes: int) -> Array:
        """The pool's accuracy on the images of each class, (classes,); nan where there are none."""
        right, count = (np.bincount(self.labels, w, minlength=classes) for w in (self.hit[0], None))
        with np.errstate(invalid="ignore"):
            return np.asarray(right / count)

    def bin_sums(self, row: int) -> Array:
        """Number, hits and confidence of the examples in each bin of confidence, (3, bins): of the pool (row
        0) or of a member."""
        bins = bin_index(self.confidence[row])
        weights = (np.ones_like(self.hit[row]), self.hit[row], self.confidence[row])
        return np.stack([np.bincount(bins, w, minlength=NUM_BINS) for w in weights])

    def influences(self) -> dict[str, Array]:
        """Of each image (N,) on the pool's accuracy, gap, ece and dce, the members' mean gap and ece, and the
        difference of the two ECEs."""
        hit, confidence = self.hit, self.confidence
        gaps = hit - confidence
        eces = np.stack([ece_influence(c, h) for c, h in zip(confidence, hit, strict=True)])
        return {
            "accuracy": _centred(hit[0]),
            "gap": _centred(gaps[0]),
            "ece": eces[0],
            "dce": dce_influence(confidence[0], hit[0]),
            "member_gap": _centred(gaps[1:].mean(0)),
            "member_ece": eces[1:].mean(0),
            "compounding": eces[0] - eces[1:].mean(0),
        }


@dataclass(frozen=True, eq=False)
class BinnedLabels:
    """What a reliability diagram draws where nothing else is kept: number, hits and confidence of the
    examples in each bin, `sums` (1 + M, 3, bins), first of the pool, then of each member."""

    sums: Array

    @property
    def hit(self) -> Array:
        """A row for the pool and each member, of no single example."""
        return np.empty((len(self.sums), 0))

    def bin_sums(self, row: int) -> Array:
        return np.asarray(self.sums[row])

    @classmethod
    def of_types(cls, load: Callable[[str], Predictions], severity: int) -> "BinnedLabels":
        """Of the benchmark's types of corruption at one severity, their examples together."""
        sums = []
        for name in CORRUPTIONS:
            top = TopLabels.of(load(f"{name}-{severity}"))
            sums.append(np.stack([top.bin_sums(row) for row in range(len(top.hit))]))
        return cls(np.sum(sums, axis=0))


def ece_influence(confidence: Array, hit: Array) -> Array:
    """sign(gap of the image's bin) * (hit - confidence), less its mean, the ECE itself."""
    gaps, bins = hit - confidence, bin_index(confidence)
    signs = np.sign(np.bincount(bins, gaps, minlength=NUM_BINS))
    return _centred(signs[bins] * gaps)


def dce_influence(confidence: Array, hit: Array) -> Array:
    """On the debiased error, in bins of equal mass; its bias term varies too little to count."""
    order = np.argsort(confidence, kind="stable")
    bins = np.empty(len(order), dtype=np.int64)
    for k, run in enumerate(np.array_split(order, NUM_BINS)):
        bins[run] = k
    gaps = hit - confidence
    mean = np.bincount(bins, gaps, minlength=NUM_BINS) / np.bincount(bins, minlength=NUM_BINS).clip(1)
    squared = mean[bins] * (2 * gaps - mean[bins])
    return _centred(squared) / (2 * math.sqrt(max(squared.mean(), 1 / len(gaps))))


def corrupted_influences(load: Callable[[str], Predictions]) -> dict[str, Array]:
    """Of each image on cA and cECE, the means over types and severities: it counts with all its versions."""
    accuracy, ece = [], []
    for name in CORRUPTIONS:
        for severity in SEVERITIES:
            predictions = load(f"{name}-{severity}")
            assert predictions.labels is not None
            top = pool(predictions.logits.double()).max(-1)
            hit = (top.indices == predictions.labels).double().numpy()
            accuracy.append(_centred(hit))
            ece.append(ece_influence(top.values.numpy(), hit))
    return {"ca": np.mean(accuracy, axis=0), "cece": np.mean(ece, axis=0)}


def write_influences(path: Path, influences: dict[str, Array]) -> None:
    with files.replacing(path) as file:
        np.savez(file, allow_pickle=False, **influences)


def read_influences(path: Path, examples: int) -> dict[str, Array] | None:
    """Those of cA and cECE that an evaluation wrote; None where there are none that can be used."""
    try:
        arrays = files.read_npz(path) if path.exists() else {}
    except InputError:
        return None
    whole = [a for a in arrays.values() if a.dtype == np.float64 and a.shape == (examples,)]
    usable = arrays.keys() == {"ca", "cece"} and len(whole) == 2 and np.isfinite(whole).all()
    return arrays if usable else None


def bin_index(confidence: Array) -> npt.NDArray[np.int64]:
    """The bin of each confidence, as ECE has them: 15 of equal width."""
    bins = equal_width(NUM_BINS)(torch.from_numpy(confidence)[:, None], False)[:, 0]
    return np.asarray(bins.long().numpy())


def _centred(values: Array) -> Array:
    return np.asarray(values - values.mean())
