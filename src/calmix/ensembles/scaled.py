"""A convolution whose inputs and outputs every member scales, with its gradients written out."""

from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

Convolution: TypeAlias = nn.Conv1d | nn.Conv2d | nn.Conv3d


def by_member(x: Tensor, values: Tensor) -> Tensor:
    """x (M * B, ...) as (M, B, ...), for the values (M, ...) of as many members."""
    return x.reshape(len(values), x.shape[0] // len(values), *x.shape[1:])


def along_channels(values: Tensor, x: Tensor, *, last: bool = False) -> Tensor:
    """values (M, channels), shaped to meet the channels of x as (M, B, ...): its third axis, or its last."""
    ones = [1] * (x.ndim - 2)
    shape = (len(values), 1, *ones, -1) if last else (len(values), 1, -1, *ones)
    return values.to(x.dtype).reshape(shape)


class ScaledConvolution(torch.autograd.Function):
    """r_k o (W * (s_k o x_k)) of every member k, from x (M * B, ...), W, r (M, out), s (M, in) and the layer.

    Left to itself, autograd multiplies and sums whole activations for the gradients of r and s. But all
    three follow from D_k, the gradient of the weights W_k = W o (r_k s_k^T), which has the size of the
    weights: that of W is the sum of D_k o (r_k s_k^T); that of r_k, D_k o W summed over the inputs with the
    factors s_k; that of s_k, over the outputs with r_k. The scaled activations need not be kept.
    """

    @staticmethod
    def forward(x: Tensor, weight: Tensor, r: Tensor, s: Tensor, layer: Convolution) -> Tensor:
        scaled = (by_member(x, s) * along_channels(s, x)).flatten(0, 1)
        y: Tensor = layer._conv_forward(scaled, weight, None)
        by_member(y, r).mul_(along_channels(r, y))
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, layer = inputs
        ctx.save_for_backward(*tensors)
        ctx.layer = layer  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, r, s = ctx.saved_tensors
        of_x, *of_weights, _ = ctx.needs_input_grad
        grad_x = grad_weight = grad_r = grad_s = None
        if of_x:
            scaled = (by_member(grad, r) * along_channels(r, grad)).reshape(grad.shape)
            grad_x = gradients(scaled, x, weight, ctx.layer, [True, False, False])[0]
            by_member(grad_x, s).mul_(along_channels(s, grad_x))
        if any(of_weights):
            shares = zip(grad.chunk(len(r)), x.chunk(len(s)), strict=True)
            own = [gradients(g, rows, weight, ctx.layer, [False, True, False])[1] for g, rows in shares]
            groups = ctx.layer.groups
            kernels = torch.stack(own).reshape(len(r), groups, -1, *weight.shape[1:])
            rows = r.reshape(len(r), groups, -1, 1)
            columns = s.reshape(len(s), groups, 1, -1)
            ones = [1] * (weight.ndim - 2)
            grad_weight = (
                (kernels * (rows * columns).reshape(*kernels.shape[:4], *ones)).sum(0).reshape_as(weight)
            )
            met = (kernels * weight.reshape(kernels.shape[1:])).reshape(*kernels.shape[:4], -1).sum(4)
            grad_r = (met * columns).sum(3).reshape_as(r)
            grad_s = (met * rows).sum(2).reshape_as(s)
        return grad_x, grad_weight, grad_r, grad_s, None


def gradients(
    grad: Tensor, x: Tensor, weight: Tensor, layer: Convolution, wanted: list[bool]
) -> tuple[Tensor, ...]:
    """Those of a convolution's input, weights and bias, as far as wanted."""
    found: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
        grad,
        x,
        weight,
        None,
        layer.stride,
        layer.padding,
        layer.dilation,
        False,
        [0] * (weight.ndim - 2),
        layer.groups,
        wanted,
    )
    return found
