"""Pooled probabilities: the mean of the members' probabilities."""

from typing import Any, TypeVar

import numpy as np
import torch

from calmix.errors import InputError
from calmix.predictions.checks import refuse_probs

Array = TypeVar("Array", torch.Tensor, "np.ndarray[Any, Any]")
BLOCK = 1 << 22  # logits pooled at a time


def pool(logits: Array) -> Array:
    """Pooled probabilities (N, C, ...): the mean over members of softmax(logits), logits (M, N, C, ...).

    Classes are axis 2, so that logits of images, (M, N, C, H, W), give a distribution at every pixel.
    Probabilities are refused, and rows without a distribution: nan, +inf, or -inf alone.

    >>> pool(torch.tensor([[[0.0, 0.0]], [[0.0, float("-inf")]]]))
    tensor([[0.7500, 0.2500]])
    """
    tensor = _tensor(logits)
    if tensor.ndim < 3:
        hint = "; a single model is one member: pass logits[None]" if tensor.ndim == 2 else ""
        raise InputError(f"logits must be (member, example, class), got shape {tuple(tensor.shape)}{hint}")
    if tensor.shape[0] == 0:
        raise InputError(f"logits must have at least one member, got shape {tuple(tensor.shape)}")
    if not tensor.is_floating_point():
        raise InputError(f"logits must be floating point, got {tensor.dtype}")
    traced = torch.compiler.is_compiling()
    if not traced:
        refuse_probs(tensor.detach())
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    pooled = tensor[0].softmax(1, dtype=dtype)
    for member in tensor[1:]:
        pooled = pooled + member.softmax(1, dtype=dtype)
    pooled = pooled / len(tensor)
    # A row that is no distribution is nan in the result, and so is the sum: one pass finds it.
    if not traced and not bool(pooled.detach().sum().isfinite()):
        _name_row(tensor)
    return pooled.numpy() if isinstance(logits, np.ndarray) else pooled


def pool_rows(logits: torch.Tensor) -> torch.Tensor:
    """`pool` of logits (M, N, C) in float64, a block of examples at a time.

    There is no second array of the size of the ensemble; in float32 a confident mistake has probability 0.
    """
    members, examples, classes = logits.shape
    pooled = torch.empty(examples, classes, dtype=torch.float64)
    rows = max(1, BLOCK // (members * classes))
    for start in range(0, examples, rows):
        part = logits[:, start : start + rows].double()
        pooled[start : start + rows] = part.softmax(-1).mean(0)
    return pooled


def _tensor(logits: Any) -> torch.Tensor:
    if isinstance(logits, np.ndarray):
        if logits.dtype.kind == "f":  # torch has no other byte orders, negative strides or longer floats
            narrow = logits.dtype.itemsize > 8
            logits = np.ascontiguousarray(
                logits, dtype=np.float64 if narrow else logits.dtype.newbyteorder("=")
            )
        elif logits.dtype.kind not in "iu":
            raise InputError(f"logits must be floating point, got {logits.dtype}")
        logits = logits if logits.flags.writeable else logits.copy()
    elif not isinstance(logits, torch.Tensor):
        raise InputError(f"logits must be a tensor or a NumPy array, not {type(logits).__name__}")
    return torch.as_tensor(logits)


def _name_row(logits: torch.Tensor) -> None:
    top = logits.detach().amax(2)
    wrong = ~top.isfinite()
    if bool(wrong.any()):
        at = wrong.nonzero()[0].tolist()
        raise InputError(
            f"logits of member {at[0]}, example {at[1]} have the maximum {float(top[tuple(at)])}, "
            f"which is not finite: fix or drop row {at[1]}"
        )
