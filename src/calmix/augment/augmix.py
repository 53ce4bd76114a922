"""AugMix: chains of simple operations, blended with each other and with the clean image."""

from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.augment.draws import beta, check_alpha, dirichlet, integers, uniform
from calmix.augment.operations import OPERATIONS, apply
from calmix.errors import InputError

# Values of images at a time on a CPU: 256 images of CIFAR. More would leave its cache.
_BLOCK = 3 * 2**18


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
        check_alpha(self.alpha, "the paper has 1")

    @classmethod
    def paper_code(cls) -> "AugMix":
        """As in the authors' scripts: alpha = 0.5, and of images (members, ...) the first stay clean."""
        return cls(alpha=0.5, clean_first=True)

    def __call__(self, images: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        if not images.is_floating_point():
            raise InputError(f"images are {images.dtype}; give floats in [0, 1], e.g. images / 255")
        if images.ndim < 3 or images.shape[-3] not in (1, 3):
            raise InputError(f"images have shape {tuple(images.shape)}; give (..., 1 or 3 channels, H, W)")
        if images.numel() and (images.amax() > 1.01 or images.amin() < -0.01):
            low, high = images.amin().item(), images.amax().item()
            raise InputError(f"images go from {low:.4g} to {high:.4g}; give [0, 1], before any normalisation")
        if self.clean_first:
            if images.ndim < 4:
                raise InputError(
                    "clean_first needs a leading member axis: give images (members, ..., C, H, W)"
                )
            return torch.cat([images[:1], self._views(images[1:], generator)])
        return self._views(images, generator)

    def _views(self, images: Tensor, generator: torch.Generator | None) -> Tensor:
        batch = images.reshape(-1, *images.shape[-3:])
        deepest = self.depth or 3
        shape = (len(batch), self.width, deepest)
        depth = integers(*shape[:2], 1, low=self.depth or 1, high=deepest + 1, generator=generator)
        operation = integers(*shape, high=len(OPERATIONS), generator=generator)
        operation = operation.where(torch.arange(deepest, device=depth.device) < depth, len(OPERATIONS))
        level = uniform(*shape, low=0.1, high=self.severity, generator=generator)
        level = level.where(integers(*shape, high=2, generator=generator) == 1, -level)
        keep = beta(self.alpha, len(batch), generator=generator)
        share = dirichlet(self.alpha, *shape[:2], generator=generator) * (1 - keep).unsqueeze(1)

        drawn = [values.to(images.device) for values in (operation, level, keep, share)]
        size = max(1, _BLOCK // max(1, batch[:1].numel()) if images.device.type == "cpu" else len(batch))
        blocks = zip(*(torch.split(values, size) for values in (batch, *drawn)), strict=True)
        views = torch.empty_like(batch)
        for i, block in enumerate(blocks):
            views[i * size : (i + 1) * size] = _blend(*block)
        return views.view(images.shape)


def _blend(batch: Tensor, operation: Tensor, level: Tensor, keep: Tensor, share: Tensor) -> Tensor:
    """keep x + the sum of share_k chain_k(x) for images x (B, C, H, W), chains drawn as (B, width, depth)."""
    width, depth = operation.shape[1:]
    chains = batch.mul(255).round_().clamp_(0, 255).short().byte().repeat(width, 1, 1, 1)
    for step in range(depth):
        chains = apply(chains, operation[..., step].T.flatten(), level[..., step].T.flatten())
    view = batch * keep.to(batch.dtype).view(-1, 1, 1, 1)
    for chain, part in zip(chains.view(width, *batch.shape), share.T / 255, strict=True):
        view.addcmul_(chain.to(batch.dtype), part.to(batch.dtype).view(-1, 1, 1, 1))
    return view
