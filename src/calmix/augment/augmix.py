"""AugMix: chains of simple operations, blended with each other and with the clean image."""

from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.augment.draws import beta, dirichlet, integers, uniform
from calmix.augment.operations import OPERATIONS, apply
from calmix.errors import InputError


@dataclass(frozen=True)
class AugMix:
    """A view of every image that looks different and means the same (Hendrycks et al., 2020).

    images (..., C, H, W), float in [0, 1], C = 1 or 3 -> the same shape. Each image goes through `width`
    chains of `depth` random operations (None: 1 to 3, drawn per chain), each at a level from U(0.1,
    severity), and

        view = m x + (1 - m) sum_k w_k chain_k(x),    w ~ Dirichlet(alpha),  m ~ Beta(alpha, alpha).

    None of the operations is among the test corruptions. Operations work on 8-bit values, as Pillow's do; the
    blend does not round. With `clean_first`, images are (members, ...) and member 0 gets them as they are.

    >>> images = torch.rand(8, 3, 32, 32)
    >>> AugMix(severity=3)(images, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([8, 3, 32, 32])
    """

    severity: float = 3
    width: int = 3
    depth: int | None = None
    alpha: float = 1.0
    clean_first: bool = False

    def __post_init__(self) -> None:
        if not 0.1 <= self.severity <= 10:
            raise InputError(f"severity = {self.severity}; give a number from 0.1 to 10 (the paper: 3)")
        if self.width < 1:
            raise InputError(f"width = {self.width}; give at least one chain")
        if self.depth is not None and self.depth < 1:
            raise InputError(f"depth = {self.depth}; give at least one operation, or None for 1 to 3")
        if not self.alpha > 0:
            raise InputError(f"alpha = {self.alpha}; give a positive number (the paper: 1)")

    @classmethod
    def paper_code(cls) -> "AugMix":
        """As in the authors' scripts: alpha = 0.5, and of images (members, ...) the first stay clean."""
        return cls(alpha=0.5, clean_first=True)

    def __call__(self, images: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        if not images.is_floating_point():
            raise InputError(f"images are {images.dtype}; give floats in [0, 1], e.g. images / 255")
        if images.ndim < 3 or images.shape[-3] not in (1, 3):
            raise InputError(f"images have shape {tuple(images.shape)}; give (..., 1 or 3 channels, H, W)")
        if self.clean_first:
            if images.ndim < 4:
                raise InputError(
                    "clean_first needs a leading member axis: give images (members, ..., C, H, W)"
                )
            return torch.cat([images[:1], self._views(images[1:], generator)])
        return self._views(images, generator)

    def _views(self, images: Tensor, generator: torch.Generator | None) -> Tensor:
        batch = images.reshape(-1, *images.shape[-3:])
        shape = (self.width, len(batch))
        deepest = self.depth or 3
        depth = integers(*shape, low=self.depth or 1, high=deepest + 1, generator=generator)
        operation = integers(deepest, *shape, high=len(OPERATIONS), generator=generator)
        step = torch.arange(deepest, device=depth.device).view(-1, 1, 1)
        operation = operation.where(step < depth, len(OPERATIONS)).flatten(1).to(batch.device)
        level = uniform(deepest, *shape, low=0.1, high=self.severity, generator=generator)
        forwards = integers(deepest, *shape, high=2, generator=generator) == 1
        level = level.where(forwards, -level).flatten(1).to(batch.device)
        weights = dirichlet(self.alpha, len(batch), self.width, generator=generator).to(batch)
        keep = beta(self.alpha, len(batch), generator=generator).to(batch)

        chains = batch.mul(255).round_().clamp_(0, 255).byte().repeat(self.width, 1, 1, 1)
        for drawn in zip(operation, level, strict=True):
            chains = apply(chains, *drawn)
        chains = chains.view(self.width, *batch.shape).to(batch.dtype)
        blend = torch.einsum("bk,kbchw->bchw", weights / 255, chains)
        return blend.lerp_(batch, keep.view(-1, 1, 1, 1)).view(images.shape)
