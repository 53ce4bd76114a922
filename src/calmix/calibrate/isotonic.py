"""Isotonic calibration of the pool (Zadrozny & Elkan 2002): a rising curve for each class."""

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calmix.calibrate.calibrator import buffer, calibrated, loss_value, save_calibrator
from calmix.calibrate.inputs import fit_rows, log_loss, log_pool, log_pool_rows
from calmix.errors import InputError
from calmix.metrics.checks import Array

RESOLUTION = 1e-15  # probabilities that are closer differ by rounding


class Isotonic(nn.Module):
    """Each class against the rest: p_k -> r_k(p_k), then rows are divided by their sum.

    `inputs` and `outputs` are the corners of the curves, one list per class, linear in between and constant
    outside. A row of zeros stays as it was. With two classes there is one curve, that of P(y = 1). A curve
    can return 0, so the NLL on other data can be infinite.
    """

    method = "isotonic"
    x: Tensor
    y: Tensor
    counts: Tensor

    def __init__(self, *, inputs: Any, outputs: Any, nll_before: Any, nll_after: Any) -> None:
        super().__init__()
        curves = [
            [buffer(f"{name}[{k}]", values, 1, least=0) for k, values in enumerate(_list(name, lists))]
            for name, lists in (("inputs", inputs), ("outputs", outputs))
        ]
        counts = [[len(values) for values in side] for side in curves]
        if counts[0] != counts[1] or len(counts[0]) == 2 or not counts[0]:
            raise InputError(
                "inputs and outputs must have one list per class (two classes: one), equally long"
            )
        for k, (x, y) in enumerate(zip(*curves, strict=True)):
            if (x.diff() <= 0).any() or (y.diff() < 0).any() or x[-1] > 1 or y[-1] > 1:
                raise InputError(f"inputs[{k}] and outputs[{k}] must rise, within 0..1")
        x, y = (nn.utils.rnn.pad_sequence(side, batch_first=True) for side in curves)
        self.register_buffer("counts", torch.tensor(counts[0])[:, None])
        # Past the end of a shorter curve there is no corner.
        past = torch.arange(x.shape[1]) >= self.counts
        self.register_buffer("x", x.masked_fill(past, torch.inf))
        self.register_buffer("y", y)
        self.nll_before = loss_value("nll_before", nll_before)
        self.nll_after = loss_value("nll_after", nll_after)

    def forward(self, logits: Array) -> Any:
        """Calibrated pooled probabilities (N, C) of logits (M, N, C), of the same array type and device."""
        return calibrated(self, logits)

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        return None, max(2, len(self.x))

    def probs(self, logits: Tensor) -> Tensor:
        return self._of_pool(log_pool(logits).exp())

    def _of_pool(self, pooled: Tensor) -> Tensor:
        if len(self.x) == 1:
            positive = self._curves(pooled[:, 1:])
            return torch.cat([1 - positive, positive], 1)
        curves = self._curves(pooled)
        total = curves.sum(1, keepdim=True)
        return torch.where(total > 0, curves / total, pooled)

    def _curves(self, probs: Tensor) -> Tensor:
        """The curves (C) at probs (N, C), each column by its own."""
        x, y, probs = self.x.to(probs), self.y.to(probs), probs.T.contiguous()
        if torch.compiler.is_exporting():  # ONNX has no binary search
            right = (x.unsqueeze(1) < probs.unsqueeze(2)).sum(2)
        else:
            right = torch.searchsorted(x, probs)
        left = (right - 1).clamp(min=0)
        right = torch.minimum(right, self.counts.to(right) - 1)
        low, high = x.gather(1, left), x.gather(1, right)
        share = torch.where(high > low, (probs - low) / (high - low), 0.0)
        start, end = y.gather(1, left), y.gather(1, right)
        return (start + share * (end - start)).T

    def numbers(self) -> dict[str, Any]:
        counts = self.counts[:, 0].tolist()
        lists = {"inputs": self.x, "outputs": self.y}
        return {
            name: [row[:count].tolist() for row, count in zip(side, counts, strict=True)]
            for name, side in lists.items()
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        save_calibrator(self, path)


def fit_isotonic(logits: Array, labels: Array, *, ignore_index: int | None = None) -> Isotonic:
    """For each class the rising curve with the least squared error, of p_k against "the label is k".

    >>> logits, labels = torch.tensor([[[0.0, -2.0], [0.0, 2.0]] * 4]), torch.tensor([0, 1, 0, 1, 0, 1, 1, 0])
    >>> fit_isotonic(logits, labels)(logits)[:2]
    tensor([[0.7500, 0.2500],
            [0.2500, 0.7500]])
    """
    logits, target = fit_rows(logits, labels, ignore_index)
    log_probs = log_pool_rows(logits)
    before = log_loss(log_probs, target).mean()
    pooled, answer = log_probs.exp_().numpy(), target.numpy()
    inputs, outputs = [], []
    for k in range(pooled.shape[1]) if pooled.shape[1] != 2 else (1,):
        corners = _rising_curve(pooled[:, k], answer == k)
        inputs.append(corners[0])
        outputs.append(corners[1])
    fitted = Isotonic(inputs=inputs, outputs=outputs, nll_before=float(before), nll_after=None)
    probs = fitted._of_pool(torch.from_numpy(pooled))
    fitted.nll_after = float(log_loss(probs.log(), target).mean())
    return fitted


def _rising_curve(p: Any, hit: Any) -> tuple[Any, Any]:
    """The corners (x, y) of the isotonic regression of hits on p; neighbours closer than 1e-15 are one x."""
    from scipy.optimize import isotonic_regression  # loaded when first used

    values, level, size = np.unique(p, return_inverse=True, return_counts=True)
    hits = np.bincount(level, hit)
    starts = np.flatnonzero(np.r_[True, np.diff(values) >= RESOLUTION])
    size, hits = np.add.reduceat(size, starts), np.add.reduceat(hits, starts)
    x, y = values[starts], isotonic_regression(hits / size, weights=size).x.clip(0, 1)
    # Inside a level no point is a corner.
    kept = np.ones(len(x), dtype=bool)
    kept[1:-1] = (y[1:-1] != y[:-2]) | (y[1:-1] != y[2:])
    return x[kept], y[kept]


def _list(name: str, lists: Any) -> list[Any]:
    if not isinstance(lists, list) or not lists:
        raise InputError(f"{name} must be a list with one list of numbers per class, got {lists!r:.60}")
    return lists
