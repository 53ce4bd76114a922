"""Random numbers from a given generator, drawn on its device; moving them is the caller's business."""

import torch
from torch import Tensor


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
    """Weights from the symmetric Dirichlet(alpha), which sum to 1 over the last axis of `shape`.

    They are normalised Gamma(alpha) draws, taken as logarithms (log G(a) = log G(a + 1) + log(U) / a) because
    a Gamma draw itself underflows to zero when alpha is small.

    >>> dirichlet(0.001, 2, 3).sum(-1)
    tensor([1., 1.])
    """
    concentration = torch.full(shape, alpha + 1.0, device=_device(generator))
    gamma = torch._standard_gamma(concentration, generator=generator)
    return torch.softmax(gamma.log() + (1 - uniform(*shape, generator=generator)).log() / alpha, dim=-1)


def beta(alpha: float, *shape: int, generator: torch.Generator | None = None) -> Tensor:
    """Numbers from Beta(alpha, alpha): the first of two Dirichlet weights."""
    return dirichlet(alpha, *shape, 2, generator=generator)[..., 0]


def _device(generator: torch.Generator | None) -> torch.device:
    return generator.device if generator is not None else torch.device("cpu")
