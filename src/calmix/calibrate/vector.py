"""Vector scaling of the pool (Guo et al. 2017): a factor and an offset for each class."""

import os
from typing import Any

import torch
from torch import Tensor, nn

from calmix.calibrate.calibrator import buffer, calibrated, loss_value, save_calibrator
from calmix.calibrate.inputs import fit_rows, log_loss, log_pool, log_pool_rows, possible_rows
from calmix.calibrate.search import minimise
from calmix.errors import InputError
from calmix.metrics.checks import Array
from calmix.seeds import generator

MIN_LOG = -100.0  # log p of a probability of 0: finite, so that every factor has a product
PULLS = (1e4, 1e3, 1e2, 1e1, 1e0, 1e-1)  # strongest first: 1 / variance of a normal prior on w - 1 and b
FOLDS = 5
VALUES = 1 << 21  # log-probabilities that cross-validation reads at most; it chooses one number
BLOCK = 1 << 18  # log-probabilities per block: a few MB


class Vector(nn.Module):
    """softmax(w * log p + b) of the pooled probabilities p, with `weight` w and `bias` b (C,)."""

    method = "vector"
    weight: Tensor
    bias: Tensor

    def __init__(self, *, weight: Any, bias: Any, pull: Any, nll_before: Any, nll_after: Any) -> None:
        super().__init__()
        self.register_buffer("weight", buffer("weight", weight, 1))
        self.register_buffer("bias", buffer("bias", bias, 1))
        if len(self.weight) != len(self.bias):
            raise InputError(f"weight has {len(self.weight)} classes, bias {len(self.bias)}: give as many")
        self.pull = float(buffer("pull", pull, 0, least=0))
        self.nll_before = loss_value("nll_before", nll_before)
        self.nll_after = loss_value("nll_after", nll_after)

    def forward(self, logits: Array) -> Any:
        """Calibrated pooled probabilities (N, C) of logits (M, N, C), of the same array type and device."""
        return calibrated(self, logits)

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        return None, len(self.weight)

    def probs(self, logits: Tensor) -> Tensor:
        log_probs = log_pool(logits).clamp(min=MIN_LOG)
        return (self.weight.to(logits) * log_probs + self.bias.to(logits)).softmax(-1)

    def numbers(self) -> dict[str, Any]:
        return {"weight": self.weight.tolist(), "bias": self.bias.tolist(), "pull": self.pull}

    def save(self, path: str | os.PathLike[str]) -> None:
        save_calibrator(self, path)


def fit_vector(logits: Array, labels: Array, *, seed: int = 0, ignore_index: int | None = None) -> Vector:
    """The w and b (C,) with the least NLL + pull / (2 N) (|w - 1|^2 + |b|^2), by quasi-Newton search.

    `pull`, towards doing nothing, is the one of 1e4, 1e3, ..., 0.1 with the least NLL in 5-fold
    cross-validation, whose folds are drawn by `seed`. It is tried from the strongest on, until one is worse
    than the one before. The loss is convex: there is one minimum, and it is never worse than doing nothing.

    >>> logits, labels = torch.tensor([[[2.0, 0.0]] * 40]), torch.tensor([0, 0, 0, 1] * 10)
    >>> fit_vector(logits, labels)(logits)[0].round(decimals=2)
    tensor([0.7500, 0.2500])
    """
    logits, target = fit_rows(logits, labels, ignore_index)
    log_probs = log_pool_rows(logits)
    before = log_loss(log_probs, target)
    possible = possible_rows(before, "vector calibrator")
    if not possible.all():
        log_probs, target = _take(log_probs, possible), target[possible]
    x = log_probs.clamp_(min=MIN_LOG)
    classes = x.shape[1]
    identity = torch.cat([torch.ones(classes), torch.zeros(classes)]).double()
    pull = _choose_pull(x, target, identity, seed)
    point = _fit(x, target, identity, pull, tolerance=1e-7, iterations=1000)
    after = _likelihood(x, target, point)[0] if possible.all() else torch.inf
    weight, bias = point.view(2, classes)
    return Vector(weight=weight, bias=bias, pull=pull, nll_before=float(before.mean()), nll_after=after)


def _choose_pull(x: Tensor, labels: Tensor, identity: Tensor, seed: int) -> float:
    """The pull with the least cross-validated NLL."""
    order = torch.randperm(len(labels), generator=generator(seed, "calibrate", "vector"))
    order = order[: max(2 * FOLDS, VALUES // x.shape[1])]
    if len(order) < 2 * FOLDS:
        return PULLS[0]
    folds = [order[k::FOLDS] for k in range(FOLDS)]
    train = [torch.cat(folds[:k] + folds[k + 1 :]) for k in range(FOLDS)]
    # A prior's strength does not depend on the number of examples: the best pull of a part serves the whole.
    points = [identity] * FOLDS
    best, best_pull = torch.inf, PULLS[0]
    for pull in PULLS:
        total = 0.0
        for k, (seen, unseen) in enumerate(zip(train, folds, strict=True)):
            points[k] = _fit(_take(x, seen), labels[seen], points[k], pull, tolerance=1e-5, iterations=100)
            total += _likelihood(_take(x, unseen), labels[unseen], points[k])[0] * len(unseen)
        if total >= best:
            break
        best, best_pull = total, pull
    return best_pull


def _fit(
    x: Tensor, labels: Tensor, start: Tensor, pull: float, *, tolerance: float, iterations: int
) -> Tensor:
    identity = torch.cat([torch.ones(x.shape[1]), torch.zeros(x.shape[1])]).double()

    def value_and_slope(flat: Any) -> tuple[float, Any]:
        point = torch.from_numpy(flat)
        loss, slope = _likelihood(x, labels, point)
        away = point - identity
        strength = pull / len(labels)
        return loss + strength / 2 * float(away @ away), (slope + strength * away).numpy()

    point, _ = minimise(value_and_slope, start.numpy(), tolerance=tolerance, iterations=iterations)
    return torch.from_numpy(point)


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """Some rows of x (N, C), which stays stored class by class."""
    return x.T[:, rows].T


def _likelihood(x: Tensor, labels: Tensor, point: Tensor) -> tuple[float, Tensor]:
    """Mean NLL of softmax(w * x + b), and its derivatives by (w, b); fastest for x stored class by class."""
    weight, bias = point.view(2, x.shape[1], 1)
    total, slope = 0.0, torch.zeros(2, x.shape[1], dtype=torch.float64)
    rows = max(1, BLOCK // x.shape[1])
    for part, label in zip(x.T.split(rows, 1), labels.split(rows), strict=True):
        log_probs = torch.addcmul(bias, part, weight).log_softmax(0)
        total -= float(log_probs.gather(0, label[None]).sum())
        error = log_probs.exp_()
        error[label, torch.arange(len(label))] -= 1
        slope[1] += error.sum(1)
        slope[0] += error.mul_(part).sum(1)
    return total / len(labels), slope.flatten() / len(labels)
