"""Random numbers from a given generator, drawn on its device; moving them is the caller's business."""

from numbers import Real

import torch
from torch import Tensor

from calmix.errors import InputError

MIN_ALPHA, MAX_ALPHA = 1e-3, 1e6  # beyond, draws are 0 or 1, or all equal, in single precision


def uniform(
    *shape: int, low: float = 0.0, high: float = 1.0, generator: torch.Generator | None = None
) -> Tensor:
    """Numbers from [low, high)."""
    return torch.rand(shape, generator=generator, device=_device(generator)) * (high - low) + low


def integers(*shape: int, low: int = 0, high: int, generator: torch.Generator | None = None) -> Tensor:
    """Whole numbers from low to high - 1."""
    return torch.randint(low, high, shape, generator=generator, device=_device(generator))


def permutations(rows: int, size: int, *, generator: torch.Generator | None = None) -> Tensor:
    """`rows` independent permutations of 0 ... size - 1, shape (rows, size)."""
    draws = [torch.randperm(size, generator=generator, device=_device(generator)) for _ in range(rows)]
    return torch.stack(draws)


def dirichlet(alpha: float, *shape: int, generator: torch.Generator | None = None) -> Tensor:
    """Weights from the symmetric Dirichlet(alpha), normalised Gamma draws: their last axis sums to 1.

    >>> torch.allclose(dirichlet(0.001, 2, 3).sum(-1), torch.ones(2))
    True
    """
    return _log_gamma(alpha, shape, generator).softmax(-1)


def beta(alpha: float, *shape: int, generator: torch.Generator | None = None) -> Tensor:
    """Numbers from Beta(alpha, alpha), the share of one Gamma draw in the sum of two."""
    first, second = _log_gamma(alpha, (2, *shape), generator)
    return torch.sigmoid(first - second)


def _log_gamma(alpha: float, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    """Logarithms of Gamma(alpha) draws, which themselves underflow where alpha is small.

    log G(alpha) = log G(alpha + 1) + log(U) / alpha, with U uniform in (0, 1].
    """
    device = _device(generator)
    gamma = torch._standard_gamma(torch.full(shape, alpha + 1.0, device=device), generator)
    uniform = torch.rand(shape, generator=generator, device=device)
    return gamma.log_().add_((1 - uniform).log_(), alpha=1 / alpha)


def _device(generator: torch.Generator | None) -> torch.device:
    return generator.device if generator is not None else torch.device("cpu")


def check_alpha(alpha: object, alternative: str) -> None:
    """Refuse a parameter of Beta or Dirichlet draws that is no number, not positive, or absurd."""
    number = isinstance(alpha, Real) and not isinstance(alpha, bool)
    if not number or not MIN_ALPHA <= alpha <= MAX_ALPHA:  # type: ignore[operator]
        raise InputError(
            f"alpha = {alpha!r}; give a number from {MIN_ALPHA:g} to {MAX_ALPHA:g}, of which the usual ones "
            f"are between 0.1 and 20; {alternative}"
        )
