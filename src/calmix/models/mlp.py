"""A perceptron of three layers, for points rather than images."""

from collections.abc import Sequence

from torch import nn

from calmix.models.normalise import Normalise


def mlp(
    in_features: int,
    hidden: int,
    num_classes: int,
    *,
    dropout: float = 0.0,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> nn.Sequential:
    """Three linear layers, ReLU and dropout after each of the two hidden ones: (B, F) -> (B, C).

    >>> sum(p.numel() for p in mlp(2, 100, 5).parameters())
    10905
    """
    return nn.Sequential(
        Normalise(in_features, mean=mean, std=std),
        nn.Linear(in_features, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, num_classes),
    )
