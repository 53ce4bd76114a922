"""Functional dropout and attention dropout with sampled masks, while a pass of MCDropout runs.

Not every dropout is a layer: F.dropout, the `dropout_p` of fused attention, nn.MultiheadAttention and
recurrent networks drop inside a function. `SampledFunctions` replaces these functions during a pass.
"""

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from calmix.ensembles.masks import DROPOUTS, SampledDropout, drop
from calmix.ensembles.recurrent import run_layers

ATTENTION_NAMES = ("attention", "attn")
RECURRENT = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)


class SampledFunctions(TorchFunctionMode):
    """Draw the masks of functional dropout from `DRAWS`.

    With `always`, dropout is on whatever a function's `training` argument says, as MC-dropout has it.
    """

    def __init__(self, *, always: bool) -> None:
        super().__init__()
        self.always = always

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in DROPOUT_FUNCTIONS:
            return self._dropout(func, *args, **kwargs)
        if func is F.scaled_dot_product_attention:
            return attention(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            training = kwargs.get("training", True) or self.always
            return MULTI_HEAD_ATTENTION(*args, **{**kwargs, "training": training})
        if func in RECURRENT and not kwargs:
            return run_layers(func, args, always=self.always)
        return func(*args, **kwargs)

    def _dropout(
        self,
        func: Callable[..., Tensor],
        input: Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
        **named: bool,
    ) -> Tensor:
        training = named.get("train", training)  # torch.dropout calls it so
        if p == 0 or not (training or self.always):
            return input
        out = drop(input, p, channels=DROPOUT_FUNCTIONS[func])
        return input.copy_(out) if inplace else out


DROPOUT_FUNCTIONS: dict[Any, bool] = {
    F.dropout: False,
    torch.dropout: False,
    F.dropout1d: True,
    F.dropout2d: True,
    F.dropout3d: True,
}
"""Functions that drop, and whether they drop whole channels."""


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`F.scaled_dot_product_attention` with the mask of its dropout from `DRAWS`.

    dropout(softmax(scale * query key^T + mask)) value, spelled out, because the fused function draws its masks
    itself. Without dropout the fused function is called.
    """
    if dropout_p == 0:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = scores.softmax(-1).masked_fill(scores.isneginf().all(-1, keepdim=True), 0)
    return drop(weights, dropout_p) @ value


def _drop_if_training(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return drop(input, p) if training and p > 0 else input


_globals = vars(F) | {
    "dropout": _drop_if_training,
    "scaled_dot_product_attention": attention,
    "has_torch_function": lambda tensors: False,
}
MULTI_HEAD_ATTENTION = FunctionType(
    F.multi_head_attention_forward.__code__,
    _globals,
    argdefs=F.multi_head_attention_forward.__defaults__,
)
"""torch's own F.multi_head_attention_forward, calling the two functions above for its dropout."""


def is_attention(part: nn.Module) -> bool:
    """Whether `part` is an attention module that drops inside a function, if it is in training mode.

    Attention modules commonly pass `dropout_p=self.dropout.p if self.training else 0.0`. They are recognised
    by their class name and a dropout of their own, a layer or a number.
    """
    if not any(word in type(part).__name__.lower() for word in ATTENTION_NAMES):
        return False
    return not isinstance(part, nn.MultiheadAttention) and owns_dropout(part)


def owns_dropout(part: nn.Module) -> bool:
    layers = any(isinstance(child, (*DROPOUTS, SampledDropout)) and child.p > 0 for child in part.children())
    return layers or any(
        "drop" in name and isinstance(value, float) and 0 < value <= 1 for name, value in vars(part).items()
    )


def drops_inside(part: nn.Module) -> bool:
    """Whether `part` has dropout with p > 0 that is no layer of its own but an argument of a function."""
    hidden = isinstance(part, nn.MultiheadAttention) and part.dropout > 0
    between = isinstance(part, nn.RNNBase) and part.dropout > 0 and part.num_layers > 1
    return hidden or between or is_attention(part)
