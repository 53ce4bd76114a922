"""A linear layer or convolution whose weight is common to all members, with a rank-one factor for each."""

import copy
from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from calmix.ensembles.graphs import is_exporting
from calmix.ensembles.members import require_channels, require_shares
from calmix.ensembles.swap import shallow_copy
from calmix.ensembles.weights import WeightProperties

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

FORM_TOGETHER = 2**16
"""Up to this many weights, `unroll` forms those of all members at once: less time, but more memory."""


def is_conv1d(layer: nn.Module) -> bool:
    """Whether this is `Conv1D` of Hugging Face's GPT-2: a linear layer with its weight stored as (in, out)."""
    kind = type(layer)
    return kind.__name__ == "Conv1D" and kind.__module__ == "transformers.pytorch_utils"


def is_layer(part: nn.Module) -> bool:
    """Whether `part` becomes a rank-one layer. Subclasses may compute something else, so they do not."""
    return type(part) in LAYERS or is_conv1d(part)


def channels(layer: Layer) -> tuple[int, int]:
    """Numbers of inputs and outputs."""
    if isinstance(layer, nn.Linear):
        return layer.in_features, layer.out_features
    if is_conv1d(layer):
        return layer.weight.shape[0], layer.weight.shape[1]
    return layer.in_channels, layer.out_channels


class RankOne(nn.Module):
    """Member k has the weights W_k = W o (r_k s_k^T) and a bias b_k of its own (Wen et al., 2020).

    r (M, out) scales the outputs and s (M, in) the inputs, also where a convolution has groups. Inputs and
    outputs are member-major, (M * B, ...). There are two ways to compute it, equal up to rounding:

    - scale: r_k o (W * (s_k o x)) + b_k: one product with W for all members, more passes over activations
    - form: compute every W_k, then one product per member; not for transposed convolutions
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
        for name in getattr(layer, "__constants__", ()):  # in_features, stride and the like, which models read
            setattr(self, name, getattr(layer, name))

    @property
    def weight(self) -> WeightProperties:
        return WeightProperties(self.layer.weight)

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        self._require_channels(x)
        require_shares(self.layer, x, len(self.r))
        if isinstance(self.layer, TRANSPOSED) or not forming_pays(x, self.layer.weight, len(self.r)):
            return self._scale(x, output_size)
        return self._form(x)

    def _scale(self, x: Tensor, output_size: list[int] | None) -> Tensor:
        x = (self._by_member(x) * self._along_channels(self.s, x)).flatten(0, 1)
        if is_conv1d(self.layer):
            y = x @ self.layer.weight
        else:
            y = self.layer(x) if output_size is None else self.layer(x, output_size)
        each, r = self._by_member(y), self._along_channels(self.r, y)
        y = each * r if self.bias is None else torch.addcmul(self._along_channels(self.bias, y), each, r)
        return y.flatten(0, 1)

    def _form(self, x: Tensor) -> Tensor:
        members = len(self.r)
        if self._channels_last:
            weights = self._weights(self.r, self.s)
            weights = weights if is_conv1d(self.layer) else weights.mT
            rows = x.reshape(members, x.shape[:-1].numel() // members, x.shape[-1])
            y = rows @ weights if self.bias is None else self.bias.unsqueeze(1).baddbmm(rows, weights)
            return y.reshape(*x.shape[:-1], y.shape[-1])
        assert not isinstance(self.layer, TRANSPOSED)
        biases = [None] * members if self.bias is None else self.bias
        own = zip(x.chunk(members), self._weights(self.r, self.s, x), biases, strict=True)
        return torch.cat([self.layer._conv_forward(rows, weight, bias) for rows, weight, bias in own])

    def unroll(self) -> Iterator[nn.Module]:
        """The plain layer of each member in turn, with weights formed from the current values; no gradients."""
        if self.layer.weight.numel() > FORM_TOGETHER:
            return (MemberLayer(self, k) for k in range(len(self.r)))
        return (self.plain(k, weight) for k, weight in enumerate(self._weights(self.r, self.s)))

    def plain(self, k: int, weight: Tensor) -> nn.Module:
        bias = None if self.bias is None else self.bias[k]
        return shallow_copy(self.layer, _parameters={"weight": weight, "bias": bias})

    @property
    def _channels_last(self) -> bool:
        return isinstance(self.layer, nn.Linear) or is_conv1d(self.layer)

    def _require_channels(self, x: Tensor) -> None:
        require_channels(self.layer, x.shape[-1 if self._channels_last else 1], self.s.shape[1])

    def _weights(self, r: Tensor, s: Tensor, x: Tensor | None = None) -> Tensor:
        """W o (r_k s_k^T) for each member; W is (out, in / groups, ...), or transposed (in, out / groups, ...).

        The memory format is that of `x`, so that the convolutions need not convert every weight.
        """
        weight = self.layer.weight
        if x is not None and weight.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last):
            weight = weight.contiguous(memory_format=torch.channels_last)
        transposed = isinstance(self.layer, TRANSPOSED) or is_conv1d(self.layer)
        rows, columns = (s, r) if transposed else (r, s)
        if weight.shape[1] < columns.shape[1]:  # in each group, rows are combined with its own columns only
            groups = columns.shape[1] // weight.shape[1]
            columns = columns.reshape(-1, weight.shape[1]).repeat_interleave(len(weight) // groups, 0)
        ones = [1] * (weight.ndim - 2)
        outer = rows.reshape(len(r), -1, 1, *ones) * columns.reshape(len(r), -1, weight.shape[1], *ones)
        return weight * outer

    def _by_member(self, x: Tensor) -> Tensor:
        """x (M * B, ...) as (M, B, ...)."""
        return x.reshape(len(self.r), x.shape[0] // len(self.r), *x.shape[1:])

    def _along_channels(self, values: Tensor, x: Tensor) -> Tensor:
        """values (M, channels), reshaped to broadcast along the channels of x (M, B, ...)."""
        ones = [1] * (x.ndim - 2)
        shape = (len(values), 1, *ones, -1) if self._channels_last else (len(values), 1, -1, *ones)
        return values.to(x.dtype).reshape(shape)

    def member(self, k: int) -> nn.Module:
        """The plain layer of member k, a copy."""
        layer = copy.deepcopy(self.layer)
        layer.weight.data = self._weights(self.r[k, None], self.s[k, None])[0].detach()
        if self.bias is not None:
            layer.bias = nn.Parameter(self.bias[k].detach().clone(), self.bias.requires_grad)
        return layer


class MemberLayer(nn.Module):
    """Member k of a rank-one layer, whose weight is formed in each call and not kept."""

    def __init__(self, layer: RankOne, k: int) -> None:
        super().__init__()
        self.layer, self.k = layer, k

    def forward(self, x: Tensor, *options: Any) -> Tensor:
        r, s = self.layer.r[self.k, None], self.layer.s[self.k, None]
        y: Tensor = self.layer.plain(self.k, self.layer._weights(r, s, x)[0])(x, *options)
        return y


def forming_pays(x: Tensor, weight: Tensor, members: int) -> bool:
    """Whether to form rather than scale: if a member has more than 4 activations per weight plus 65,536.

    The rule depends on shapes alone, never on timing, so results are reproducible. Exported graphs always
    scale, because their sizes are symbols. Time of forming relative to scaling, forward and backward on one
    thread with 4 x 32 images (`python -m benchmarks ensembles`): 3 -> 16 channels of 32 x 32 pixels 0.7, 64 -> 128 of 32 x 32 with a 1 x 1 kernel 0.6, 16 -> 16 of
    16 x 16 0.9, 128 -> 128 of 16 x 16 0.9; but 32 -> 32 of 8 x 8 1.0, 256 -> 256 of 8 x 8 1.1, 64 -> 64 of
    4 x 4 1.3, 512 -> 512 of 4 x 4 1.2.
    """
    return not is_exporting() and x.numel() > members * (4 * weight.numel() + 2**16)
