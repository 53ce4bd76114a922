"""Temperature scaling of an ensemble (Guo et al. 2017): before pooling, after it, or for each member."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from calmix.errors import InputError
from calmix.metrics.checks import Array, check_array, check_length, check_range
from calmix.metrics.sample import floats, integers

Order: TypeAlias = Literal["pool", "member", "each"]
LOWEST, HIGHEST = 0.05, 20.0
# Spaced evenly in log T; symmetric, so that the middle one is 1.
GRID = torch.linspace(math.log(LOWEST), math.log(HIGHEST), 25, dtype=torch.float64).tolist()
BLOCK = 1 << 18  # logits worked on at a time: a few MB in float64


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature: above 1 it makes predictions less sure, below 1 more.

    `temperature` is a number, or a tensor (M,) where every member has its own. `nll_before` and `nll_after`
    are of the pooled predictions it was fitted on, at temperature 1 and at this one.
    """

    temperature: float | Tensor
    order: Order
    nll_before: float
    nll_after: float

    def apply(self, logits: Array) -> Array:
        """Calibrated and pooled probabilities (N, C) of logits (M, N, C), of the kind and device given."""
        _check_logits(logits)
        if self.order == "each" and logits.shape[0] != len(torch.as_tensor(self.temperature)):
            raise InputError(
                f"logits have {logits.shape[0]} members, and there are temperatures for "
                f"{len(torch.as_tensor(self.temperature))}: give the ensemble that was fitted"
            )
        scale = torch.as_tensor(self.temperature, dtype=torch.float64).view(-1, 1, 1)
        dtype = floats(logits[:, :1]).dtype
        parts = []
        for rows in _blocks(logits):
            block = floats(logits[:, rows]).double()
            if self.order == "pool":
                block = _log_pool(block)[None]
            parts.append((block / scale).softmax(-1).mean(0).to(dtype))
        pooled = torch.cat(parts)
        return pooled.to(logits.device) if isinstance(logits, Tensor) else pooled.numpy()


def fit_temperature(logits: Array, labels: Array, *, order: Order = "pool") -> Temperature:
    """The temperature T in 0.05..20 with the least negative log-likelihood on logits (M, N, C), labels (N,).

    - "pool": softmax(log p / T) with p the pooled probabilities: pool, then calibrate.
    - "member": the mean over members of softmax(logits / T), one T for all: calibrate, then pool.
    - "each": as "member", with a T for each member, fitted to that member's own likelihood.

    A grid in log T is followed by Brent's bounded search around every one of its minima, of which "member"
    can have several; there is no learning rate and no starting point. Warns where T ends at the border of
    its range, and where a label has probability 0, which no temperature mends: T is fitted to the rest.
    Sums are in float64, in blocks of rows.

    >>> logits, labels = torch.tensor([[[2.0, 0.0]] * 4]), torch.tensor([0, 0, 0, 1])
    >>> fitted = fit_temperature(logits, labels)  # right in 3 of 4, so its confidence should be 0.75
    >>> round(fitted.temperature, 4), fitted.apply(logits)[0]
    (1.8205, tensor([0.7500, 0.2500]))
    """
    if order not in get_args(Order):
        raise InputError(f"order is {order!r}: it must be one of {', '.join(get_args(Order))}")
    _check_logits(logits)
    check_array("labels", labels, "examples", integers=True)
    check_length("labels", labels, logits.shape[1])
    target = integers(labels)
    check_range("labels", target, logits.shape[2])
    members: Array = logits
    if order == "pool" and logits.shape[0] > 1:
        members = torch.cat([_log_pool(floats(logits[:, rows]).double()) for rows in _blocks(logits)])[None]
    if order == "each":
        found = [_search(_likelihood(logits[k : k + 1], target)) for k in range(logits.shape[0])]
        temperature: float | Tensor = torch.tensor(found, dtype=torch.float64)
    else:
        temperature = _search(_likelihood(members, target))
    before, after = (_losses(members, target, t).mean() for t in (1.0, temperature))
    return Temperature(temperature, order, float(before), float(after))


def _search(nll: Callable[[float], float]) -> float:
    """The T within the range at which `nll` is least; 1 where nothing is better."""
    values = [nll(math.exp(x)) for x in GRID]
    candidates = [(values[len(GRID) // 2], 1.0)]
    for i, value in enumerate(values):
        left, right = max(i - 1, 0), min(i + 1, len(GRID) - 1)
        if value <= min(values[left], values[right]):
            best = minimize_scalar(
                lambda x: nll(math.exp(x)),
                bounds=(GRID[left], GRID[right]),
                method="bounded",
                options={"xatol": 1e-7},
            )
            candidates += [(best.fun, math.exp(best.x)), (value, math.exp(GRID[i]))]
    # Below the twelfth digit there is only rounding; of equals, the one that changes least.
    temperature = min(candidates, key=lambda pair: (round(pair[0], 12), abs(math.log(pair[1]))))[1]
    if not LOWEST * 1.0001 < temperature < HIGHEST / 1.0001:
        hint = "every prediction right" if temperature < 1 else "predictions no better than chance"
        warnings.warn(
            f"the temperature ends at the border of its range {LOWEST:g}..{HIGHEST:g}, at {temperature:.4g}; "
            f"{hint} can cause this, and so can logits that are none",
            stacklevel=3,
        )
    return temperature


def _likelihood(members: Array, labels: Tensor) -> Callable[[float], float]:
    """The mean NLL as a function of T, over the examples whose label has a probability above 0."""
    possible = _losses(members, labels, 1.0).isfinite()
    if not possible.all():
        warnings.warn(
            f"{int((~possible).sum())} examples give their label the probability 0, the first at "
            f"{int((~possible).nonzero()[0])}: no temperature mends that, and T is fitted to the others",
            stacklevel=3,
        )
    if not possible.any():
        return lambda temperature: 0.0
    return lambda temperature: float(_losses(members, labels, temperature)[possible].mean())


def _losses(members: Array, labels: Tensor, temperature: float | Tensor) -> Tensor:
    """-log of the mean over members of softmax(logits / T) at the label, (N,), from logits (M, N, C)."""
    scale = torch.as_tensor(temperature, dtype=torch.float64).view(-1, 1, 1)
    found = []
    for rows in _blocks(members):
        scaled = floats(members[:, rows]).double() / scale
        at_label = scaled.gather(2, labels[rows].expand(len(scaled), -1)[..., None])[..., 0]
        found.append(math.log(len(scaled)) - (at_label - scaled.logsumexp(-1)).logsumexp(0))
    return torch.cat(found)


def _log_pool(logits: Tensor) -> Tensor:
    """log of the pooled probabilities, in which nothing underflows: a large T would bring it to light."""
    return logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))


def _blocks(logits: Array) -> list[slice]:
    members, examples, classes = logits.shape
    rows = max(1, BLOCK // (members * classes))
    return [slice(start, start + rows) for start in range(0, examples, rows)]


def _check_logits(logits: Array) -> None:
    check_array("logits", logits, "members", "examples", "classes")
    for rows in _blocks(logits):
        top = floats(logits[:, rows]).amax(-1)
        if not top.isfinite().all():
            member, example = (~top.isfinite()).nonzero()[0].tolist()
            found = float(top[member, example])
            raise InputError(
                f"logits[{member}, {rows.start + example}] has the largest entry {found}: "
                "every row needs a finite one; remove or mend the row"
            )
