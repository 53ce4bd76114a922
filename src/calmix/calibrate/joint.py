"""Joint calibrator: one temperature, and one factor for the members' spread around their mean logits."""

import math
import os
from typing import Any

import torch
from torch import Tensor, nn

from calmix.calibrate.calibrator import buffer, calibrated, loss_value, save_calibrator
from calmix.calibrate.inputs import blocks, fit_rows, log_loss, log_pool_rows, possible_rows
from calmix.calibrate.search import minimise
from calmix.calibrate.temperature import MAX_TEMPERATURE, MIN_TEMPERATURE
from calmix.metrics.checks import Array
from calmix.metrics.sample import floats
from calmix.seeds import generator

MIN_SPREAD, MAX_SPREAD = 1e-3, 10.0  # below the least it is 0
GRID_TEMPERATURES = (0.1, 0.3, 1.0, 3.0, 10.0, 20.0)
GRID_SPREADS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
MAX_STARTS = 5
GRID_LOGITS, SEARCH_LOGITS = 1 << 20, 1 << 22  # read at most by the grid and by the search: two numbers
# Relative to the row's largest logit. Below it a probability is 0, and the mean over members stays finite.
MIN_LOGIT = -1e4


class Joint(nn.Module):
    """p = mean over m of softmax((zbar + b (z_m - zbar)) / T), zbar the mean of the members' logits.

    `temperature` is T, `spread` is b: b = 1 is temperature before pooling, b = 0 averages logits, b > 1
    raises the members' disagreement.
    """

    method = "joint"
    scale: Tensor
    factor: Tensor

    def __init__(self, *, temperature: Any, spread: Any, nll_before: Any, nll_after: Any) -> None:
        super().__init__()
        least = torch.finfo(torch.float64).tiny
        self.register_buffer("scale", buffer("temperature", temperature, 0, least=least))
        self.register_buffer("factor", buffer("spread", spread, 0, least=0))
        self.nll_before = loss_value("nll_before", nll_before)
        self.nll_after = loss_value("nll_after", nll_after)

    @property
    def temperature(self) -> float:
        return float(self.scale)

    @property
    def spread(self) -> float:
        return float(self.factor)

    def forward(self, logits: Array) -> Any:
        """Calibrated pooled probabilities (N, C) of logits (M, N, C), of the same array type and device."""
        return calibrated(self, logits)

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        return None, None

    def probs(self, logits: Tensor) -> Tensor:
        return _scaled(logits, self.scale.to(logits), self.factor.to(logits)).softmax(-1).mean(0)

    def numbers(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "spread": self.spread}

    def save(self, path: str | os.PathLike[str]) -> None:
        save_calibrator(self, path)


def fit_joint(logits: Array, labels: Array, *, ignore_index: int | None = None) -> Joint:
    """The T in 0.05..20 and b in 0..10 with the least negative log-likelihood; b is 1 for one member.

    The likelihood can have several minima: a grid over (T, b) is followed by a bounded quasi-Newton search
    from the best of its minima. There is no learning rate and no starting point. Of more than 2^22 logits
    (10,000 examples of 4 members and 100 classes) the search reads a random part of that size, the same in
    every call, and the grid a quarter of it; `nll_before` and `nll_after` are those of all examples.

    >>> logits = torch.tensor([[[4.0, 0.0]] * 4, [[0.0, 0.0]] * 4])
    >>> fitted = fit_joint(logits, torch.tensor([0, 0, 0, 1]))
    >>> fitted(logits)[0]
    tensor([0.7500, 0.2500])
    """
    logits, target = fit_rows(logits, labels, ignore_index)
    before = log_loss(log_pool_rows(logits), target)
    rows = possible_rows(before, "joint calibrator").nonzero()[:, 0]
    temperature, spread = _search(logits, target, rows) if len(rows) else (1.0, 1.0)
    after = _likelihood(logits, target, temperature, spread)[0] if len(rows) == len(target) else math.inf
    return Joint(temperature=temperature, spread=spread, nll_before=float(before.mean()), nll_after=after)


def _search(logits: Array, labels: Tensor, rows: Tensor) -> tuple[float, float]:
    per_row = logits.shape[0] * logits.shape[2]
    if len(rows) * per_row > GRID_LOGITS:
        rows = rows[torch.randperm(len(rows), generator=generator(0, "calibrate", "joint"))]
    rows, few = (rows[: max(1, most // per_row)] for most in (SEARCH_LOGITS, GRID_LOGITS))
    if len(rows) < len(labels):
        logits, labels = floats(logits)[:, rows], labels[rows]
    grid_part = logits[:, : len(few)], labels[: len(few)]
    spreads = GRID_SPREADS if logits.shape[0] > 1 else (1.0,)

    def value(temperature: float, spread: float) -> float:
        return _likelihood(logits, labels, temperature, spread)[0]

    # By (log T, b^2): the derivative by b is 0 at b = 0, whatever the data, and a search would end there.
    def value_and_slope(point: Any) -> tuple[float, list[float]]:
        spread = math.sqrt(point[1])
        nll, (by_log_temperature, by_spread) = _likelihood(
            logits, labels, math.exp(point[0]), spread, slope=True
        )
        return nll, [by_log_temperature, by_spread / (2 * spread)]

    grid = {
        (i, j): _likelihood(*grid_part, t, b)[0]
        for i, t in enumerate(GRID_TEMPERATURES)
        for j, b in enumerate(spreads)
    }
    minima = [
        (nll, i, j)
        for (i, j), nll in grid.items()
        if all(nll <= grid.get((i + k, j + h), math.inf) for k in (-1, 0, 1) for h in (-1, 0, 1))
    ]
    candidates = [(value(1.0, 1.0), 1.0, 1.0)]
    bounds = [(math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE)), (MIN_SPREAD**2, MAX_SPREAD**2)]
    if len(spreads) == 1:
        bounds[1] = (1.0, 1.0)
    for _, i, j in sorted(minima)[:MAX_STARTS]:
        start = [math.log(GRID_TEMPERATURES[i]), max(spreads[j], MIN_SPREAD) ** 2]
        (log_temperature, square), nll = minimise(value_and_slope, start, bounds=bounds, tolerance=1e-7)
        temperature, spread = math.exp(log_temperature), math.sqrt(square)
        candidates.append((nll, temperature, spread))
        if spread <= 2 * MIN_SPREAD:
            candidates.append((value(temperature, 0.0), temperature, 0.0))
    # Differences beyond the twelfth digit are rounding; of equals, take the point nearest to (1, 1).
    best_point = min(candidates, key=lambda c: (round(c[0], 12), abs(math.log(c[1])) + abs(c[2] - 1)))
    return best_point[1], best_point[2]


def _likelihood(
    logits: Array, labels: Tensor, temperature: float, spread: float, *, slope: bool = False
) -> tuple[float, list[float]]:
    """Mean NLL at (T, b), and its derivatives by log T and b."""
    point = torch.tensor([math.log(temperature), spread], dtype=torch.float64, requires_grad=slope)
    total = 0.0
    for rows in blocks(logits):
        log_probs = _scaled(floats(logits[:, rows]).double(), point[0].exp(), point[1]).log_softmax(-1)
        at_label = log_probs.gather(2, labels[rows].expand(len(log_probs), -1)[..., None])[..., 0]
        loss = (math.log(len(log_probs)) - at_label.logsumexp(0)).sum() / len(labels)
        if slope:
            loss.backward()
        total += loss.item()
    return total, [] if point.grad is None else point.grad.tolist()


def _scaled(logits: Tensor, temperature: Tensor, spread: Tensor) -> Tensor:
    centred = (logits - logits.amax(-1, keepdim=True)).clamp(min=MIN_LOGIT)
    mean = centred.mean(0)
    return (mean + spread * (centred - mean)) / temperature
