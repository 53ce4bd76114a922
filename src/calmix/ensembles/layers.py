"""A linear layer or convolution that members share, each with a rank-one factor of its own."""

import copy
from typing import TypeAlias

import torch
from torch import Tensor, nn

from calmix.ensembles.members import TURN, require_shares

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
    also where a convolution has groups. Rows come and go member-major, (M * B, ...); while one member has
    its turn, they are all that member's.

    There are two ways to compute it, equal but for rounding:

    - scale: r_k o (W * (s_k o x)) + b_k, one product with W for all members, two more passes over activations
    - form: make every W_k, one product a member, and join the results
    """

    def __init__(self, layer: Layer, r: Tensor, s: Tensor) -> None:
        super().__init__()
        self.layer = layer
        self.r = nn.Parameter(r)
        self.s = nn.Parameter(s)
        self.bias = None
        if layer.bias is not None:
            self.bias = nn.Parameter(layer.bias.detach().repeat(len(r), 1), layer.bias.requires_grad)
            layer.bias = None

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        own = slice(None) if TURN.member is None else slice(TURN.member, TURN.member + 1)
        r, s, bias = self.r[own], self.s[own], None if self.bias is None else self.bias[own]
        require_shares(self.layer, x, len(r))
        if not isinstance(self.layer, TRANSPOSED) and forming_pays(x, self.layer.weight, len(r)):
            return self._form(x, r, s, bias)
        return self._scale(x, r, s, bias, output_size)

    def _scale(
        self, x: Tensor, r: Tensor, s: Tensor, bias: Tensor | None, output_size: list[int] | None = None
    ) -> Tensor:
        x = self._by_member(x, s) * self._along_channels(s, x)
        y = self.layer(x.flatten(0, 1)) if output_size is None else self.layer(x.flatten(0, 1), output_size)
        factor = self._along_channels(r, y)
        if bias is None:
            return (self._by_member(y, r) * factor).flatten(0, 1)
        return torch.addcmul(self._along_channels(bias, y), self._by_member(y, r), factor).flatten(0, 1)

    def _form(self, x: Tensor, r: Tensor, s: Tensor, bias: Tensor | None) -> Tensor:
        weights = self._weights(r, s)
        if isinstance(self.layer, nn.Linear):
            rows = x.reshape(len(r), x.shape[:-1].numel() // len(r), x.shape[-1])
            y = rows @ weights.mT if bias is None else torch.baddbmm(bias.unsqueeze(1), rows, weights.mT)
            return y.reshape(*x.shape[:-1], y.shape[-1])
        assert not isinstance(self.layer, TRANSPOSED)
        biases = [None] * len(r) if bias is None else bias.unbind()
        parts = zip(x.chunk(len(r)), weights.unbind(), biases, strict=True)
        pieces = [self.layer._conv_forward(*part) for part in parts]
        return pieces[0] if len(r) == 1 else torch.cat(pieces)

    def _weights(self, r: Tensor, s: Tensor) -> Tensor:
        """W o (r_k s_k^T) by member; W is (out, in / groups, ...), or transposed (in, out / groups, ...)."""
        weight = self.layer.weight
        rows, columns = (s, r) if isinstance(self.layer, TRANSPOSED) else (r, s)
        groups = 1 if isinstance(self.layer, nn.Linear) else self.layer.groups
        outer = rows.reshape(len(r), groups, -1, 1) * columns.reshape(len(r), groups, 1, -1)
        return weight * outer.reshape(len(r), *weight.shape[:2], *[1] * (weight.ndim - 2))

    @staticmethod
    def _by_member(x: Tensor, values: Tensor) -> Tensor:
        """x (M * B, ...) as (M, B, ...)."""
        return x.reshape(len(values), x.shape[0] // len(values), *x.shape[1:])

    def _along_channels(self, values: Tensor, x: Tensor) -> Tensor:
        """values (M, channels), shaped to meet the channels of x as (M, B, ...)."""
        ones = [1] * (x.ndim - 2)
        last = isinstance(self.layer, nn.Linear)
        shape = (len(values), 1, *ones, -1) if last else (len(values), 1, -1, *ones)
        return values.to(x.dtype).reshape(shape)

    def member(self, k: int) -> nn.Module:
        """The plain layer of member k, on copies of its values."""
        layer = copy.deepcopy(self.layer)
        layer.weight.data = self._weights(self.r[k : k + 1], self.s[k : k + 1])[0].detach().clone()
        if self.bias is not None:
            layer.bias = nn.Parameter(self.bias[k].detach().clone(), self.bias.requires_grad)
        return layer


def forming_pays(x: Tensor, weight: Tensor, members: int) -> bool:
    """Whether to form the members' weights: each has more than 4 activations a weight, and 65,536 on top."""
    return x.numel() > members * (4 * weight.numel() + 2**16)
