"""Wide residual networks (Zagoruyko & Komodakis, 2016), the network of the paper on CIFAR."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calmix.errors import InputError
from calmix.models.normalise import Normalise


class PreActivationBlock(nn.Module):
    """x + conv2(relu(norm2(drop(conv1(relu(norm1(x))))))), with a 1x1 convolution on x where shapes differ.

    Dropout is element-wise, once a block; `filterwise` drops whole channels instead, before every
    convolution.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, *, dropout: float, filterwise: bool) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.shortcut = (
            nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs or stride != 1 else None
        )
        self.drop = nn.Identity() if filterwise else nn.Dropout(dropout)
        self.drop_filters = nn.Dropout2d(dropout) if filterwise else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.drop(self.conv1(self.drop_filters(F.relu(self.norm1(x)))))
        y = self.conv2(self.drop_filters(F.relu(self.norm2(y))))
        out: Tensor = y + (x if self.shortcut is None else self.shortcut(self.drop_filters(x)))
        return out


class PreActivationResNet(nn.Module):
    """Stages of pre-activation blocks, each at half the resolution of the last: (B, C, H, W) -> (B, classes).

    `fold` x `fold` pixels become channels before the first convolution, which has `stem` filters. Weights
    are He-normal, the final bias 0. Activations are channels-last: a third faster on a CPU, and what tensor
    cores want.
    """

    def __init__(
        self,
        in_channels: int,
        stem: int,
        stages: Sequence[int],
        blocks: int,
        num_classes: int,
        *,
        fold: int = 1,
        dropout: float = 0.0,
        filterwise: bool = False,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.fold = fold
        self.normalise = Normalise(in_channels, mean=mean, std=std)
        self.stem = nn.Conv2d(in_channels * fold**2, stem, 3, 1, 1, bias=False)
        self.blocks = nn.Sequential()
        inputs = stem
        for stage, outputs in enumerate(stages):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                self.blocks.append(
                    PreActivationBlock(inputs, outputs, stride, dropout=dropout, filterwise=filterwise)
                )
                inputs = outputs
        self.norm = nn.BatchNorm2d(inputs)
        self.head = nn.Linear(inputs, num_classes)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        nn.init.zeros_(self.head.bias)

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
    return PreActivationResNet(
        in_channels,
        16,
        [16 * width, 32 * width, 64 * width],
        (depth - 4) // 6,
        num_classes,
        dropout=dropout,
        filterwise=filterwise,
        mean=mean,
        std=std,
    )
