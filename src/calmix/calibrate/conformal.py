"""Conformal prediction: sets of classes that contain the label with a chosen probability."""

import math
import os
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor, nn

from calmix.calibrate.calibrator import buffer, save_calibrator
from calmix.calibrate.inputs import blocks, check_values, fit_rows, log_pool_rows
from calmix.errors import InputError, one_of
from calmix.metrics.checks import Array
from calmix.metrics.trailing import class_rows, from_class_rows

Score: TypeAlias = Literal["lac", "aps"]


class Conformal(nn.Module):
    """Prediction sets: the classes whose score is at most `threshold`; infinite means all classes."""

    method = "conformal"
    quantile: Tensor

    def __init__(self, *, threshold: Any, alpha: Any, score: Score) -> None:
        super().__init__()
        one_of("score", score, get_args(Score))
        threshold = (
            torch.tensor(torch.inf) if threshold is None else buffer("threshold", threshold, 0, least=0)
        )
        self.register_buffer("quantile", threshold.double())
        self.alpha, self.score = float(buffer("alpha", alpha, 0, least=0)), score

    @property
    def threshold(self) -> float:
        return float(self.quantile)

    def forward(self, logits: Array) -> Any:
        """Sets of logits (M, N, C, ...) as bool (N, C, ...), of the same array type and device.

        A set can be empty.
        """
        if logits.ndim > 3:
            rows = torch.as_tensor(self(class_rows(logits, axis=2)))
            sets = from_class_rows(rows, tuple(logits.shape[1:]))
            return sets.numpy() if isinstance(logits, np.ndarray) else sets
        check_values(logits)
        inside = (
            torch.cat([_scores(logits[:, rows], self.score) for rows in blocks(logits)]) <= self.threshold
        )
        return inside.to(logits.device) if isinstance(logits, Tensor) else inside.numpy()

    def numbers(self) -> dict[str, Any]:
        return {"threshold": self.threshold, "alpha": self.alpha, "score": self.score}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON that `load_calibrator` reads."""
        save_calibrator(self, path)


def fit_conformal(
    logits: Array, labels: Array, *, alpha: float = 0.1, score: Score = "lac", ignore_index: int | None = None
) -> Conformal:
    """Sets that contain the label of a new example with probability at least 1 - alpha (split conformal).

    Scores of the pooled probabilities p of a class y, the smaller the likelier:

    - "lac": 1 - p_y, the smallest sets on average (Sadinle et al. 2019).
    - "aps": the sum of p over y and all likelier classes (Romano et al. 2020, not randomised): sets grow with
      the difficulty of the example.

    The threshold is the ceil((n + 1)(1 - alpha))-th smallest score of the n labels; where that exceeds n,
    sets hold all classes. Examples must be exchangeable with new ones, and no fit may have used them:
    calibrate on one part of the validation data, pass `fitted(logits).log()[None]` of the other.

    >>> logits = torch.tensor([[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]]).log()
    >>> sets = fit_conformal(logits, torch.tensor([0, 0, 1, 1]), alpha=0.4)  # third of 0.1 0.2 0.3 0.6
    >>> sets(torch.tensor([[[0.72, 0.28], [0.5, 0.5]]]).log())
    tensor([[ True, False],
            [False, False]])
    """
    one_of("score", score, get_args(Score))
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.floating) or not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha!r}: it must be a number between 0 and 1, such as 0.1")
    logits, target = fit_rows(logits, labels, ignore_index)
    parts = [_scores(logits[:, rows], score).gather(1, target[rows, None])[:, 0] for rows in blocks(logits)]
    # In decimals: 1 - 0.1 in binary can exceed 0.9, and the rank would be one too high.
    rank = math.ceil((len(target) + 1) * (1 - Fraction(repr(float(alpha)))))
    threshold = float(torch.cat(parts).kthvalue(rank).values) if rank <= len(target) else None
    return Conformal(threshold=threshold, alpha=float(alpha), score=score)


def _scores(logits: Array, score: Score) -> Tensor:
    """The score of every class, (N, C) in float64 on the CPU."""
    probs = log_pool_rows(logits).exp()
    if score == "lac":
        return 1 - probs
    ranked, order = probs.sort(dim=1, descending=True, stable=True)
    return torch.empty_like(probs).scatter_(1, order, ranked.cumsum(1))
