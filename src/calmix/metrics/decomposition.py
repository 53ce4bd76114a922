"""Proper scores as two parts: what calibration alone would repair, and the rest."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from calmix.errors import InputError
from calmix.metrics.checks import Array
from calmix.metrics.sample import Sample
from calmix.seeds import generator

FOLDS = 5
MAX_FIT = 20_000  # examples that a temperature is fitted on
LOG_RANGE = (-4.6, 4.6)  # temperatures between 0.01 and 100


@dataclass(frozen=True)
class BrierParts:
    """Brier score of a binary event = miscalibration - discrimination + uncertainty."""

    miscalibration: float
    discrimination: float
    uncertainty: float


@dataclass(frozen=True)
class Refinement:
    """NLL = calibration + refinement."""

    calibration: float
    refinement: float


def brier_parts(probs: Array, labels: Array, *, ignore_index: int | None = None) -> BrierParts:
    """CORP parts of the Brier score, by isotonic regression, without bins (Dimitriadis et al. 2021).

    With S the mean squared distance from the hits of the confidences c, of their isotonic regression r and of
    the base rate b: miscalibration = S(c) - S(r), discrimination = S(b) - S(r), uncertainty = S(b). Of the
    top label for probs (N, C), so that S(c) is not `brier`, which sums over the classes; of P(y = 1) for
    probs (N,).

    >>> import torch
    >>> brier_parts(torch.tensor([[0.75, 0.25], [0.5, 0.5]]), torch.tensor([0, 1]))
    BrierParts(miscalibration=0.15625, discrimination=0.25, uncertainty=0.25)
    """
    from scipy.optimize import isotonic_regression  # loaded when first used

    blocks = [
        (block.confidence.double(), block.hit.double())
        for block in Sample(probs, labels, pixels=True, ignore_index=ignore_index).blocks()
    ]
    confidence, hit = (torch.cat(parts).numpy() for parts in zip(*blocks, strict=True))
    # Equal confidences share one value of the regression.
    _, level, size = np.unique(confidence, return_inverse=True, return_counts=True)
    rate = np.bincount(level, hit) / size
    regression = isotonic_regression(rate, weights=size).x
    least = float(np.mean((regression[level] - hit) ** 2))
    uncertainty = float(np.mean((hit.mean() - hit) ** 2))
    return BrierParts(
        miscalibration=float(np.mean((confidence - hit) ** 2)) - least,
        discrimination=uncertainty - least,
        uncertainty=uncertainty,
    )


def refinement(probs: Array, labels: Array, *, ignore_index: int | None = None) -> Refinement:
    """What of the negative log-likelihood a temperature repairs, and what it leaves (Berta et al. 2025).

    refinement is the NLL of softmax(log(probs) / T), each fifth of the examples with the T that is best for
    the others (of at most 20,000 of them); calibration = nll - refinement. That is an estimate on new
    examples: for calibrated predictions it is near 0 and may be a little below. Fifths are drawn at random,
    the same in every call. Where `nll` is infinite, so is the refinement, and calibration is 0.

    >>> import torch
    >>> parts = refinement(torch.tensor([[0.9, 0.1]] * 9000), torch.tensor([0, 0, 1] * 3000))
    >>> round(parts.refinement, 3), round(parts.calibration, 3)  # the entropy of 2/3, and what is above it
    (0.637, 0.201)
    """
    from scipy.optimize import minimize_scalar  # loaded when first used

    sample = Sample(probs, labels, pixels=True, ignore_index=ignore_index)
    if sample.size < 2:
        raise InputError("probs has one example: a temperature for new examples needs at least two")
    order = torch.randperm(sample.size, generator=generator(0, "refinement"))
    fold = torch.empty_like(order)
    fold[order] = torch.arange(sample.size) % FOLDS
    rows = sample.whole()
    temperatures = []
    for k in range(FOLDS):
        others = order[fold[order] != k][:MAX_FIT]
        logp, y = rows.probs[others].double().log(), rows.labels[others]
        best = minimize_scalar(
            lambda t, logp=logp, y=y: float(_losses(logp, y, np.exp(t)).mean()),
            bounds=LOG_RANGE,
            method="bounded",
            options={"xatol": 1e-6},
        )
        temperatures.append(np.exp(best.x))
    before = after = 0.0
    start = 0
    scale = torch.tensor(temperatures, dtype=torch.float64)[fold]
    for block in sample.blocks():
        part = slice(start, start := start + len(block.labels))
        before += float(-block.label_probability.double().log().sum())
        after += float(_losses(block.columns.double().log(), block.labels, scale[part, None]).sum())
    if before == float("inf"):
        return Refinement(calibration=0.0, refinement=before)
    return Refinement((before - after) / sample.size, after / sample.size)


def _losses(logp: Tensor, labels: Tensor, temperature: Tensor | float) -> Tensor:
    """NLL of softmax(logp / T), (B,); the log-probability of a row's label may be -inf."""
    scaled = logp / temperature
    return scaled.logsumexp(1) - scaled.gather(1, labels[:, None])[:, 0]
