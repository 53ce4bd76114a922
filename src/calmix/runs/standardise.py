"""Standardisation: a fixed first layer that holds the mean and deviation of the training data."""

import torch
from torch import Tensor, nn

from calmix import data
from calmix.models.normalise import Normalise


class Standardised(nn.Module):
    """(x - mean) / std along axis 1, then the network; both are saved with the weights.

    Mixed inputs are mixed before: the layer is linear, so that is the same as mixing standardised ones.
    """

    def __init__(self, network: nn.Module, channels: int) -> None:
        super().__init__()
        self.normalise = Normalise(channels, mean=[0.0] * channels, std=[1.0] * channels)
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.network(self.normalise(x))
        return out


def set_statistics(model: nn.Module, part: data.Examples) -> None:
    """Write the statistics of a training part into every first layer of `model`; a constant feature has
    deviation 1."""
    layers = [layer.normalise for layer in model.modules() if isinstance(layer, Standardised)]
    if not layers:
        return
    mean, std = statistics(part)
    for layer in layers:
        assert layer.mean is not None
        assert layer.std is not None
        layer.mean.copy_(mean)
        layer.std.copy_(std)


def statistics(part: data.Examples) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (C,) of each feature or channel, in one pass over the part.

    >>> part = data.Part(torch.tensor([[0.0, 5.0], [2.0, 5.0]]), torch.tensor([0, 1]))
    >>> statistics(part)
    (tensor([1., 5.]), tensor([1., 1.]))
    """
    total = square = torch.zeros(())
    count = 0
    for batch in part.read(torch.arange(len(part)).split(1000)):
        rows = data.as_floats(batch).double().transpose(0, 1).flatten(1)
        total, square = total + rows.sum(1), square + rows.square().sum(1)
        count += rows.shape[1]
    mean = total / count
    std = (square / count - mean.square()).clamp(min=0).sqrt()
    constant = std <= 1e-6 * mean.abs().clamp(min=1e-6)
    return mean.float(), std.masked_fill(constant, 1.0).float()
