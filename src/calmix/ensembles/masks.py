"""Dropout masks that follow from keys, and the layer that draws them."""

import threading
from typing import TypeAlias

import torch
from torch import Tensor, nn

from calmix.ensembles.graphs import outside_graphs
from calmix.errors import InputError
from calmix.seeds import generator

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
Key: TypeAlias = tuple[int | str, ...]


class UnevenRows(Exception):
    """The rows of a mask do not divide evenly among the samples that run together."""


class Draws(threading.local):
    """The keys of the masks in the pass that runs in this thread: one key for each equal block of rows.

    Every mask has its own generator, seeded by its key and its position in the pass. So there is no state to
    copy, pickle or move, and the masks of a sample do not depend on which other samples run beside it.
    """

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.training_keys: list[Key] = []
        self.place = 0

    @outside_graphs
    def mask(self, like: Tensor, keep: float) -> Tensor:
        """1 with probability `keep`, otherwise 0."""
        if not self.keys:
            raise InputError("a sampled dropout layer was called outside of its MCDropout: call that instead")
        if len(self.keys) > 1 and (like.ndim == 0 or like.shape[0] % len(self.keys)):
            raise UnevenRows
        mask = torch.empty_like(like)
        for key, block in zip(self.keys, mask.chunk(len(self.keys)), strict=like.shape[0] > 0):
            seed, *path = key
            block.bernoulli_(keep, generator=generator(int(seed), *path, self.place, device=like.device))
        self.place += 1
        return mask


DRAWS = Draws()


def drop(x: Tensor, p: float, *, channels: bool = False) -> Tensor:
    """Dropout with a mask from `DRAWS`: of single elements, or of whole channels of x (rows, channels, ...)."""
    keep = 1 - p
    if keep in (0, 1):
        return x * keep
    like = x.new_empty(*x.shape[:2], *[1] * (x.ndim - 2)) if channels else x.detach()
    mask: Tensor = DRAWS.mask(like, keep)
    return torch.addcmul(x.new_zeros(()), x, mask, value=1 / keep)  # x * mask / keep in one pass


class SampledDropout(nn.Module):
    """Dropout that is always on, of elements or of whole channels like the plain layer."""

    def __init__(self, plain: nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d) -> None:
        super().__init__()
        self.plain = plain

    @property
    def p(self) -> float:
        """The probability to drop, which fused attention reads."""
        return self.plain.p

    @property
    def inplace(self) -> bool:
        return False

    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.plain.p, channels=not isinstance(self.plain, nn.Dropout))
