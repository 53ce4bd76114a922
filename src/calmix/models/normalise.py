"""What all networks share: the first layer, which normalises inputs in [0, 1], and the first weights."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from calmix.errors import InputError


class Normalise(nn.Module):
    """(x - mean) / std along axis 1, so that a network's callers need not know how it was trained.

    x (B, C, ...) and one value a channel, saved with the weights; what is not given is neither applied nor
    saved.

    >>> Normalise(1, mean=(0.5,), std=(0.25,))(torch.ones(1, 1, 1, 1)).item()
    2.0
    """

    mean: Tensor | None
    std: Tensor | None

    def __init__(self, channels: int, *, mean: Sequence[float] | None, std: Sequence[float] | None) -> None:
        super().__init__()
        self.channels = channels
        for name, values in (("mean", mean), ("std", std)):
            if values is not None and len(values) != channels:
                raise InputError(f"{name} has {len(values)} values for {channels} channels: give as many")
            self.register_buffer(name, None if values is None else torch.tensor(values, dtype=torch.float32))
        if std is not None and min(std) <= 0:
            raise InputError(f"std must be above 0 in every channel, got {tuple(std)}")

    def forward(self, x: Tensor) -> Tensor:
        values = self.std if self.mean is None else self.mean
        if values is not None and x.shape[1] != len(values):
            raise InputError(f"the network takes inputs of {len(values)} channels, and got {x.shape[1]}")
        shape = (-1,) + (1,) * (x.ndim - 2)
        if self.mean is not None:
            x = x - self.mean.view(shape)
        if self.std is not None:
            x = x / self.std.view(shape)
        return x


def initialise(network: nn.Module) -> None:
    """He-normal weights of convolutions and linear layers; the bias of the last, `head`, is 0."""
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    nn.init.zeros_(network.head.bias)  # type: ignore[union-attr,arg-type]
