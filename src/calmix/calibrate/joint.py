"""Joint calibrator: one temperature, and one factor for the members' spread around their mean logits."""

import math
import os
from typing import Any

import torch
from torch import Tensor, nn

from calmix.calibrate.calibrator import buffer, calibrated, loss_value, save_calibrator
from calmix.calibrate.inputs import ColumnBlocks, fit_rows, log_loss, log_pool_rows, possible_rows
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
    every = len(rows) == len(target)
    after = (
        _likelihood(ColumnBlocks(logits, _mean_and_away), target, temperature, spread)[0]
        if every
        else math.inf
    )
    return Joint(temperature=temperature, spread=spread, nll_before=float(before.mean()), nll_after=after)


def _search(logits: Array, labels: Tensor, rows: Tensor) -> tuple[float, float]:
    per_row = logits.shape[0] * logits.shape[2]
    if len(rows) * per_row > GRID_LOGITS:
        rows = rows[torch.randperm(len(rows), generator=generator(0, "calibrate", "joint"))]
    rows, few = (rows[: max(1, most // per_row)] for most in (SEARCH_LOGITS, GRID_LOGITS))
    if len(rows) < len(labels):
        logits, labels = floats(logits)[:, rows], labels[rows]
    all_blocks = ColumnBlocks(logits, _mean_and_away)
    short = len(few) < len(labels)
    grid_blocks = ColumnBlocks(logits[:, : len(few)], _mean_and_away) if short else all_blocks
    spreads = GRID_SPREADS if logits.shape[0] > 1 else (1.0,)

    def value(temperature: float, spread: float) -> float:
        return _likelihood(all_blocks, labels, temperature, spread)[0]

    # By (log T, b^2): the derivative by b is 0 at b = 0, whatever the data, and a search would end there.
    def value_and_slope(point: Any) -> tuple[float, list[float]]:
        spread = math.sqrt(point[1])
        nll, (by_log_temperature, by_spread) = _likelihood(
            all_blocks, labels, math.exp(point[0]), spread, slope=True
        )
        return nll, [by_log_temperature, by_spread / (2 * spread)]

    grid = {
        (i, j): _likelihood(grid_blocks, labels[: len(few)], t, b)[0]
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
    parts: ColumnBlocks, labels: Tensor, temperature: float, spread: float, *, slope: bool = False
) -> tuple[float, list[float]]:
    """Mean NLL at (T, b), and its derivatives by log T and b.

    With s = (zbar + b d) / T, d = z_m - zbar, and r_m member m's share of the pooled probability of the
    label: they are the sums of r_m (s_y - E s) and of -r_m (d_y - E d) / T, E over the classes of member m.
    """
    total, slopes = 0.0, torch.zeros(2, dtype=torch.float64)
    for rows, values in parts:
        mean, away = values[0], values[1:]
        scaled = (mean + spread * away) / temperature
        log_probs = scaled.log_softmax(1)
        label = labels[rows].expand(len(log_probs), 1, -1)
        at_label = log_probs.gather(1, label)[:, 0]
        pooled = at_label.logsumexp(0)
        total += float((math.log(len(log_probs)) - pooled).sum())
        if slope:
            share, probs = (at_label - pooled).exp_(), log_probs.exp_()
            for k, by in enumerate((scaled, away)):
                slopes[k] += (share * (by.gather(1, label)[:, 0] - (probs * by).sum(1))).sum()
    by_log_temperature, by_spread = (slopes / len(labels)).tolist()
    return total / len(labels), [by_log_temperature, -by_spread / temperature]


def _scaled(logits: Tensor, temperature: Tensor, spread: Tensor) -> Tensor:
    mean, away = _parts(logits, -1)
    return (mean + spread * away) / temperature


def _parts(logits: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The mean of the members' logits, and each member's distance from it; `axis` is that of the classes."""
    centred = (logits - logits.amax(axis, keepdim=True)).clamp(min=MIN_LOGIT)
    mean = centred.mean(0)
    return mean, centred - mean


def _mean_and_away(values: Tensor) -> Tensor:
    """Of columns (M, C, B), (1 + M, C, B)."""
    mean, away = _parts(values, 1)
    return torch.cat([mean[None], away])
