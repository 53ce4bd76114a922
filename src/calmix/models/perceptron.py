"""A perceptron of three layers, for points and for images taken as points."""

from collections.abc import Sequence

from torch import nn

from calmix.models.normalise import Normalise


def mlp(
    in_features: int,
    hidden: int,
    num_classes: int,
    *,
    dropout: float = 0.0,
    in_channels: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> nn.Sequential:
    """Three linear layers, ReLU and dropout after each of the two hidden ones: (B, F) -> (B, C).

    `mean` and `std` have one value a feature; with `in_channels` one a channel, for images (B, in_channels,
    ...) of F values in all.

    >>> sum(p.numel() for p in mlp(2, 100, 5).parameters())
    10905
    """
    first: list[nn.Module] = [Normalise(in_channels or in_features, mean=mean, std=std)]
    if in_channels:
        first.append(nn.Flatten())
    return nn.Sequential(
        *first,
        nn.Linear(in_features, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, num_classes),
    )
