"""Temperature scaling of an ensemble (Guo et al. 2017): before pooling, after it, or for each member."""

import math
import os
import warnings
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from calmix.calibrate.calibrator import buffer, calibrated, loss_value, save_calibrator
from calmix.calibrate.inputs import ColumnBlocks, fit_rows, log_pool, log_pool_rows, possible_rows
from calmix.errors import InputError
from calmix.metrics.checks import Array

Order: TypeAlias = Literal["pool", "member", "each"]
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0
# log T, evenly spaced and symmetric: the middle is T = 1.
GRID = torch.linspace(math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE), 25, dtype=torch.float64).tolist()


class Temperature(nn.Module):
    """A fitted temperature: above 1 it lowers the confidence, below 1 it raises it.

    `temperature` is a number, or a tensor (M,) with one per member for order "each". `nll_before` and
    `nll_after` are those of the pooled predictions it was fitted on, at temperature 1 and at this one.
    """

    method = "temperature"
    temperatures: Tensor

    def __init__(self, *, temperature: Any, order: Order, nll_before: Any, nll_after: Any) -> None:
        super().__init__()
        _check_order(order)
        self.order = order
        least = torch.finfo(torch.float64).tiny
        self.register_buffer("temperatures", buffer("temperature", temperature, order == "each", least=least))
        self.nll_before = loss_value("nll_before", nll_before)
        self.nll_after = loss_value("nll_after", nll_after)

    @property
    def temperature(self) -> float | Tensor:
        return self.temperatures if self.order == "each" else float(self.temperatures)

    def forward(self, logits: Array) -> Any:
        """Calibrated pooled probabilities (N, C) of logits (M, N, C), of the same array type and device."""
        return calibrated(self, logits)

    def apply(self, logits: Any) -> Any:
        """The same as a call; with a function, `nn.Module.apply`."""
        return super().apply(logits) if callable(logits) else self(logits)

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        return len(self.temperatures) if self.order == "each" else None, None

    def probs(self, logits: Tensor) -> Tensor:
        members = log_pool(logits)[None] if self.order == "pool" else logits
        return (members / self.temperatures.to(members).view(-1, 1, 1)).softmax(-1).mean(0)

    def numbers(self) -> dict[str, Any]:
        return {"temperature": self.temperatures.tolist(), "order": self.order}

    def save(self, path: str | os.PathLike[str]) -> None:
        save_calibrator(self, path)


def fit_temperature(
    logits: Array, labels: Array, *, order: Order = "pool", ignore_index: int | None = None
) -> Temperature:
    """The temperature T in 0.05..20 with the least negative log-likelihood on logits (M, N, C), labels (N,).

    - "pool": softmax(log p / T) with p the pooled probabilities: pool, then calibrate.
    - "member": the mean over members of softmax(logits / T), one T for all: calibrate, then pool.
    - "each": as "member", with one T per member, fitted to that member's own likelihood.

    A grid in log T is followed by Brent's bounded search around each of its minima, of which "member" can
    have several; there is no learning rate and no starting point. Warns if T ends at a bound of its range, or
    if a label has probability 0, which no temperature changes: T is then fitted to the other examples. Sums
    are in float64, in blocks of rows.

    >>> logits, labels = torch.tensor([[[2.0, 0.0]] * 4]), torch.tensor([0, 0, 0, 1])
    >>> fitted = fit_temperature(logits, labels)  # correct in 3 of 4: its confidence should be 0.75
    >>> round(fitted.temperature, 4), fitted(logits)[0]
    (1.8205, tensor([0.7500, 0.2500]))
    """
    _check_order(order)
    logits, target = fit_rows(logits, labels, ignore_index)
    pooled = order == "pool" and logits.shape[0] > 1
    members = ColumnBlocks(log_pool_rows(logits)[None] if pooled else logits)
    if order == "each":
        each = [_search(_likelihood(ColumnBlocks(logits[k : k + 1]), target)) for k in range(logits.shape[0])]
        temperature: float | Tensor = torch.tensor(each, dtype=torch.float64)
    else:
        temperature = _search(_likelihood(members, target))
    before, after = (float(_losses(members, target, t).mean()) for t in (1.0, temperature))
    return Temperature(temperature=temperature, order=order, nll_before=before, nll_after=after)


def _search(nll: Callable[[float], float]) -> float:
    """The T in the range with the least `nll`; 1 if none is better."""
    from scipy.optimize import minimize_scalar  # a slow import

    # Differences beyond the twelfth digit are rounding; of equals, take the T nearest to 1.
    values = [round(nll(math.exp(x)), 12) for x in GRID]
    candidates = [(values[len(GRID) // 2], 1.0)]
    for i, value in enumerate(values):
        left, right = max(i - 1, 0), min(i + 1, len(GRID) - 1)
        if value <= min(values[left], values[right]):
            search: Any = {"bounds": (GRID[left], GRID[right]), "method": "bounded"}
            best = minimize_scalar(lambda x: nll(math.exp(x)), **search, options={"xatol": 1e-7})
            candidates += [(best.fun, math.exp(best.x)), (value, math.exp(GRID[i]))]
    temperature = min(candidates, key=lambda pair: (round(pair[0], 12), abs(math.log(pair[1]))))[1]
    if not MIN_TEMPERATURE * 1.0001 < temperature < MAX_TEMPERATURE / 1.0001:
        hint = "all predictions correct" if temperature < 1 else "predictions no better than chance"
        warnings.warn(
            f"temperature {temperature:.4g} is at the bound of its range "
            f"{MIN_TEMPERATURE:g}..{MAX_TEMPERATURE:g}: {hint} can cause this, or values that are not logits",
            stacklevel=3,
        )
    return temperature


def _likelihood(members: ColumnBlocks, labels: Tensor) -> Callable[[float], float]:
    """Mean NLL as a function of T, over the examples whose label has a probability above 0."""
    possible = possible_rows(_losses(members, labels, 1.0), "temperature")
    if not possible.any():
        return lambda temperature: 0.0
    return lambda temperature: float(_losses(members, labels, temperature)[possible].mean())


def _losses(members: ColumnBlocks, labels: Tensor, temperature: float | Tensor) -> Tensor:
    """-log of the mean over members of softmax(logits / T) at the label, (N,), from logits (M, N, C)."""
    scale = torch.as_tensor(temperature, dtype=torch.float64).view(-1, 1, 1)
    losses = []
    for rows, values in members:
        log_probs = (values / scale).log_softmax(1)
        at_label = log_probs.gather(1, labels[rows].expand(len(log_probs), 1, -1))[:, 0]
        losses.append(
            math.log(len(log_probs)) - (at_label.logsumexp(0) if len(at_label) > 1 else at_label[0])
        )
    return torch.cat(losses)


def _check_order(order: str) -> None:
    if order not in get_args(Order):
        raise InputError(f"order is {order!r}: it must be one of {', '.join(get_args(Order))}")
