"""Beta calibration of a binary pool (Kull et al. 2017): logistic regression on log p and -log(1 - p)."""

import os
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from calmix.calibrate.calibrator import buffer, calibrated, loss_value, save_calibrator
from calmix.calibrate.inputs import fit_rows, log_loss, log_pool, log_pool_rows, possible_rows
from calmix.calibrate.search import minimise
from calmix.errors import InputError
from calmix.metrics.checks import Array

MIN_LOG = -100.0  # log p of a probability of 0
MAX_SLOPE, MAX_OFFSET = 20.0, 100.0  # without bounds, separable data have no minimum


class Beta(nn.Module):
    """logit P(y = 1) = a log p - b log(1 - p) + c, with p the pooled P(y = 1); a, b >= 0.

    a = b = 1, c = 0 changes nothing; a = b = 1 / T, c = 0 is a temperature.
    """

    method = "beta"
    slopes: Tensor
    offset: Tensor

    def __init__(self, *, a: Any, b: Any, c: Any, nll_before: Any, nll_after: Any) -> None:
        super().__init__()
        slopes = [buffer("a", a, 0, least=0), buffer("b", b, 0, least=0)]
        self.register_buffer("slopes", torch.stack(slopes))
        self.register_buffer("offset", buffer("c", c, 0))
        self.nll_before = loss_value("nll_before", nll_before)
        self.nll_after = loss_value("nll_after", nll_after)

    @property
    def a(self) -> float:
        return float(self.slopes[0])

    @property
    def b(self) -> float:
        return float(self.slopes[1])

    @property
    def c(self) -> float:
        return float(self.offset)

    def forward(self, logits: Array) -> Any:
        """Calibrated pooled probabilities (N, 2) of logits (M, N, 2), of the same array type and device."""
        return calibrated(self, logits)

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        return None, 2

    def probs(self, logits: Tensor) -> Tensor:
        logit = _features(log_pool(logits)) @ self.slopes.to(logits) + self.offset.to(logits)
        return torch.stack([-logit, logit], 1).sigmoid()

    def numbers(self) -> dict[str, Any]:
        return {"a": self.a, "b": self.b, "c": self.c}

    def save(self, path: str | os.PathLike[str]) -> None:
        save_calibrator(self, path)


def fit_beta(logits: Array, labels: Array, *, ignore_index: int | None = None) -> Beta:
    """The a, b in 0..20 and c in -100..100 with the least negative log-likelihood; two classes.

    The loss is convex, so its minimum under a, b >= 0 is what the paper's rule finds: drop a negative slope
    and fit again.

    >>> logits, labels = torch.tensor([[[2.0, 0.0], [0.0, 2.0]] * 4]), torch.tensor([0, 1, 0, 1, 0, 1, 1, 0])
    >>> fit_beta(logits, labels)(logits)[:2]
    tensor([[0.7500, 0.2500],
            [0.2500, 0.7500]])
    """
    logits, target = fit_rows(logits, labels, ignore_index)
    if logits.shape[2] != 2:
        raise InputError(f"logits has {logits.shape[2]} classes: beta is for 2; use another method")
    log_probs = log_pool_rows(logits)
    before = log_loss(log_probs, target)
    possible = possible_rows(before, "beta calibrator")
    x, y = _features(log_probs[possible]), target[possible].double()

    def value_and_slope(point: Any) -> tuple[float, Any]:
        *slopes, offset = torch.from_numpy(point)
        logit = x @ torch.stack(slopes) + offset
        error = (logit.sigmoid() - y) / len(y)
        loss = float(binary_cross_entropy_with_logits(logit, y))
        return loss, torch.cat([error @ x, error.sum()[None]]).numpy()

    best = [1.0, 1.0, 0.0]
    if len(y):
        bounds = [(0, MAX_SLOPE), (0, MAX_SLOPE), (-MAX_OFFSET, MAX_OFFSET)]
        best = minimise(value_and_slope, best, bounds=bounds)[0].tolist()
    a, b, c = best
    fitted = Beta(a=a, b=b, c=c, nll_before=float(before.mean()), nll_after=None)
    logit = _features(log_probs) @ fitted.slopes + fitted.offset
    fitted.nll_after = float(-logsigmoid(torch.where(target == 1, logit, -logit)).mean())
    return fitted


def _features(log_probs: Tensor) -> Tensor:
    """log p and -log(1 - p), (N, 2), of log-probabilities (N, 2)."""
    log_probs = log_probs.clamp(min=MIN_LOG)
    return torch.stack([log_probs[:, 1], -log_probs[:, 0]], 1)
