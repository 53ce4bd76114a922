"""A linear or convolutional layer shared by all members, each with a rank-one change of its own."""

import copy
from typing import TypeAlias

from torch import Tensor, nn

from calmix.errors import InputError

Layer: TypeAlias = (
    nn.Linear
    | nn.Conv1d
    | nn.Conv2d
    | nn.Conv3d
    | nn.ConvTranspose1d
    | nn.ConvTranspose2d
    | nn.ConvTranspose3d
)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *TRANSPOSED)


class RankOne(nn.Module):
    """Member k has the weights W_k = W o (r_k s_k^T) and a bias b_k of its own (Wen et al., 2020).

    r (M, out) scales the rows of W, which make the outputs; s (M, in) its columns, which meet the inputs,
    also where a convolution is grouped. Rows of the input and the output are member-major: (M * B, ...).
    """

    def __init__(self, layer: Layer, r: Tensor, s: Tensor) -> None:
        super().__init__()
        self.members = len(r)
        self.layer = layer
        self.r = nn.Parameter(r)
        self.s = nn.Parameter(s)
        self.bias = None
        if layer.bias is not None:
            bias = layer.bias.detach().repeat(self.members, 1)
            self.bias = nn.Parameter(bias, requires_grad=layer.bias.requires_grad)
            layer.bias = None

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        if x.shape[0] % self.members:
            raise InputError(
                f"a {type(self.layer).__name__} got {x.shape[0]} rows for {self.members} members: "
                "the module must keep the batch as the first axis"
            )
        x = self._each(x) * self._along(self.s, x)
        y = self.layer(x.flatten(0, 1)) if output_size is None else self.layer(x.flatten(0, 1), output_size)
        y = self._each(y) * self._along(self.r, y)
        if self.bias is not None:
            y = y + self._along(self.bias, y.flatten(0, 1))
        return y.flatten(0, 1)

    def _each(self, x: Tensor) -> Tensor:
        """(M * B, ...) -> (M, B, ...)."""
        return x.reshape(self.members, x.shape[0] // self.members, *x.shape[1:])

    def _along(self, values: Tensor, x: Tensor) -> Tensor:
        """values (M, channels), shaped so as to meet the channels of (M, B, ...)."""
        if isinstance(self.layer, nn.Linear):
            return values.view(self.members, *[1] * (x.ndim - 1), -1)
        return values.view(self.members, 1, -1, *[1] * (x.ndim - 2))

    def weights(self) -> Tensor:
        """The weights of every member, (M, *W.shape)."""
        weight = self.layer.weight
        rows, columns = (self.s, self.r) if isinstance(self.layer, TRANSPOSED) else (self.r, self.s)
        groups = 1 if isinstance(self.layer, nn.Linear) else self.layer.groups
        outer = rows.view(self.members, groups, -1, 1) * columns.view(self.members, groups, 1, -1)
        return weight * outer.view(self.members, *weight.shape[:2], *[1] * (weight.ndim - 2))

    def member(self, k: int) -> Layer:
        """The layer of member k alone, on copies of its values."""
        layer = copy.deepcopy(self.layer)
        layer.weight.data = self.weights()[k].detach().clone()
        if self.bias is not None:
            layer.bias = nn.Parameter(self.bias[k].detach().clone(), requires_grad=self.bias.requires_grad)
        return layer
