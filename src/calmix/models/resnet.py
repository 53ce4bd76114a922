"""ResNet-50 (He et al., 2015), the network of the paper on ImageNet."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calmix.models.normalise import Normalise, initialise


class Bottleneck(nn.Module):
    """1x1, 3x3 (which carries the stride) and 1x1 convolutions, four times as wide outside as inside.

    Dropout is element-wise, once a block, before the last convolution.
    """

    def __init__(self, inputs: int, inner: int, stride: int, dropout: float) -> None:
        super().__init__()
        outputs = 4 * inner
        self.conv1, self.norm1 = nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.norm2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv3, self.norm3 = nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.drop = nn.Dropout(dropout)
        self.shortcut = None
        if inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(self.drop(y)))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet50(nn.Module):
    """Stages of 3, 4, 6 and 3 bottlenecks: (B, C, H, W) -> (B, classes). He-normal, channels-last."""

    def __init__(self, normalise: Normalise, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.normalise = normalise
        self.stem, self.norm = nn.Conv2d(normalise.channels, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.blocks = nn.Sequential()
        inputs = 64
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                self.blocks.append(Bottleneck(inputs, 64 << stage, stride, dropout))
                inputs = 256 << stage
        self.head = nn.Linear(inputs, num_classes)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(self.normalise(x).contiguous(memory_format=torch.channels_last))
        x = F.max_pool2d(F.relu(self.norm(x)), 3, 2, 1)
        logits: Tensor = self.head(self.blocks(x).mean((2, 3)))
        return logits


def resnet50(
    num_classes: int = 1000,
    *,
    dropout: float = 0.0,
    in_channels: int = 3,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> ResNet50:
    """ResNet-50 with the stride in the 3x3 convolutions.

    >>> sum(p.numel() for p in resnet50().parameters())
    25557032
    """
    return ResNet50(Normalise(in_channels, mean=mean, std=std), num_classes, dropout)
