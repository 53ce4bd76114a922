"""A residual network that trains on two CPU cores."""

from collections.abc import Sequence

from calmix.models.wide_resnet import PreActivationResNet


def small_resnet(
    num_classes: int = 10,
    width: int = 16,
    *,
    dropout: float = 0.0,
    in_channels: int = 3,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> PreActivationResNet:
    """Three pre-activation blocks of 1, 2 and 4 times `width` channels, on pixels folded 2 x 2 into channels.

    The fold keeps every pixel and quarters the work: more than three times as fast as WRN-10-1. Images of
    any size work, from 2 x 2 pixels up; an odd last row or column is met with zeros. Dropout as in
    `wide_resnet`.

    >>> sum(p.numel() for p in small_resnet().parameters())
    79146
    """
    return PreActivationResNet(
        in_channels,
        width,
        [width, 2 * width, 4 * width],
        1,
        num_classes,
        fold=2,
        dropout=dropout,
        mean=mean,
        std=std,
    )
