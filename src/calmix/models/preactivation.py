"""Wide residual networks (Zagoruyko & Komodakis, 2016), the paper's networks on CIFAR, and a small one."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calmix.errors import InputError
from calmix.models.normalise import Normalise, initialise


class PreActivationBlock(nn.Module):
    """x + conv2(relu(norm2(drop(conv1(relu(norm1(x))))))), with a 1x1 convolution on x where shapes differ.

    Dropout is element-wise, once a block; `filterwise` drops whole channels instead, before every
    convolution.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float, filterwise: bool) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        # On a CPU, the backward pass of a strided 1x1 convolution of fewer than 16 channels-last inputs
        # writes out of bounds (uxlfoundation/oneDNN#6035), so those are strided by a slice instead.
        self.subsample = stride if inputs < 16 else 1
        self.shortcut = None
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride // self.subsample, bias=False)
        self.drop = nn.Identity() if filterwise else nn.Dropout(dropout)
        self.drop_filters = nn.Dropout2d(dropout) if filterwise else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.drop(self.conv1(self.drop_filters(F.relu(self.norm1(x)))))
        y = self.conv2(self.drop_filters(F.relu(self.norm2(y))))
        if self.shortcut is not None:
            x = self.shortcut(self.drop_filters(x)[..., :: self.subsample, :: self.subsample])
        return x + y


class PreActivationResNet(nn.Module):
    """Stages of pre-activation blocks, each at half the resolution of the last: (B, C, H, W) -> (B, classes).

    `fold` x `fold` pixels become channels before the first convolution, which has `stem` filters. Weights
    are He-normal, the final bias 0. Activations are channels-last: a third faster on a CPU, and what tensor
    cores want.
    """

    def __init__(
        self,
        normalise: Normalise,
        stem: int,
        stages: Sequence[int],
        blocks: int,
        num_classes: int,
        *,
        fold: int = 1,
        dropout: float,
        filterwise: bool = False,
    ) -> None:
        super().__init__()
        self.fold, self.normalise = fold, normalise
        self.stem = nn.Conv2d(normalise.channels * fold**2, stem, 3, 1, 1, bias=False)
        self.blocks = nn.Sequential()
        inputs = stem
        for stage, outputs in enumerate(stages):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                self.blocks.append(PreActivationBlock(inputs, outputs, stride, dropout, filterwise))
                inputs = outputs
        self.norm = nn.BatchNorm2d(inputs)
        self.head = nn.Linear(inputs, num_classes)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.normalise(x)
        if self.fold > 1:
            height, width = x.shape[-2:]
            x = F.pad(x, (0, -width % self.fold, 0, -height % self.fold))
            rows, columns = (side // self.fold for side in x.shape[2:])
            x = x.reshape(*x.shape[:2], rows, self.fold, columns, self.fold)
            x = x.permute(0, 1, 3, 5, 2, 4).flatten(1, 3)  # as F.pixel_unshuffle does, in half the time
        x = self.stem(x.contiguous(memory_format=torch.channels_last))
        logits: Tensor = self.head(F.relu(self.norm(self.blocks(x))).mean((2, 3)))
        return logits


def wide_resnet(
    depth: int,
    width: int,
    num_classes: int = 10,
    *,
    dropout: float = 0.0,
    filterwise: bool = False,
    in_channels: int = 3,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> PreActivationResNet:
    """WRN-depth-width: three stages of (depth - 4) / 6 blocks with 16, 32 and 64 times `width` channels.

    Shortcuts project the block's own input, not its activation, as in the paper's code.

    >>> sum(p.numel() for p in wide_resnet(10, 1).parameters())
    77850
    """
    if depth < 10 or depth % 6 != 4:
        raise InputError(f"depth must be 6n + 4 (10, 16, 22, 28, ...), got {depth}")
    stages, normalise = [16 * width, 32 * width, 64 * width], Normalise(in_channels, mean=mean, std=std)
    blocks = (depth - 4) // 6
    return PreActivationResNet(
        normalise, 16, stages, blocks, num_classes, dropout=dropout, filterwise=filterwise
    )


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

    The fold keeps every pixel and quarters the work: it trains on two CPU cores, more than three times as
    fast as WRN-10-1. Images of any size work, from 2 x 2 pixels up; an odd last row or column is met with
    zeros. Dropout as in `wide_resnet`.

    >>> sum(p.numel() for p in small_resnet().parameters())
    79146
    """
    stages, normalise = [width, 2 * width, 4 * width], Normalise(in_channels, mean=mean, std=std)
    return PreActivationResNet(normalise, width, stages, 1, num_classes, fold=2, dropout=dropout)
