"""Validators of arrays and counts: errors name the argument, the offending value, its index, and the fix."""

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calmix.errors import InputError

Array: TypeAlias = Tensor | npt.NDArray[Any]

SUM_TOLERANCE = 1e-3  # largest deviation of a row's sum from 1
MAX_SUM_TOLERANCE = 0.1  # the same for bfloat16 and any number of classes


def sum_tolerance(probs: Array) -> float:
    """How far a row's sum may be from 1: 1e-3, or the rounding of a narrower type over the row.

    Half an eps of each value by its own rounding, as much by that of a softmax, and, where they are
    exponentials of rounded log-probabilities, half an eps times the entropy, at most log(classes). Below the
    smallest normal number the error is absolute.

    >>> round(sum_tolerance(torch.zeros(1, 10, dtype=torch.bfloat16)), 4)
    0.0168
    """
    half = probs.dtype if isinstance(probs, Tensor) else torch.float16 if probs.dtype.itemsize == 2 else None
    if half not in (torch.float16, torch.bfloat16):
        return SUM_TOLERANCE
    info, classes = torch.finfo(half), probs.shape[-1]
    rounding = info.eps * (1 + math.log(classes) / 2) + classes * info.smallest_normal * info.eps
    return min(max(SUM_TOLERANCE, rounding), MAX_SUM_TOLERANCE)


def check_array(name: str, array: Array, *axes: str, integers: bool = False) -> None:
    """`array` must be a tensor or NumPy array of numbers with these axes, none of them empty."""
    if not isinstance(array, Tensor | np.ndarray):
        raise InputError(
            f"{name} must be a torch tensor or a NumPy array, not {type(array).__name__}; "
            f"numpy.asarray({name}) makes one"
        )
    shape, expected = tuple(array.shape), f"({', '.join(axes)})"
    if len(shape) != len(axes):
        raise InputError(f"{name} must have the axes {expected}, but its shape is {shape}")
    for axis, size in zip(axes, shape, strict=True):
        if size == 0:
            raise InputError(f"{name} of shape {shape} has no {axis}: at least one is needed")
    if isinstance(array, Tensor):
        integral = not (array.is_floating_point() or array.is_complex() or array.dtype == torch.bool)
        floating = array.is_floating_point()
    else:
        integral, floating = array.dtype.kind in "iu", array.dtype.kind == "f"
    if integers and not integral:
        raise InputError(f"{name} must hold integers, not {array.dtype}")
    if not integers and not floating:
        raise InputError(f"{name} must hold floating-point numbers, not {array.dtype}")


def check_probs(probs: Array) -> None:
    """`probs` must have the axes (examples, classes), or (examples) for P(y = 1)."""
    if getattr(probs, "ndim", 2) == 1:
        check_array("probs", probs, "examples")
    else:
        check_array("probs", probs, "examples", "classes")


def check_unit(probs: Tensor, start: int = 0) -> None:
    """Every number of `probs` (B, 1) must be in [0, 1]; `start` is the index of the first."""
    wrong = ~((probs >= 0) & (probs <= 1))
    if wrong.any():
        at = int(wrong.nonzero()[0, 0])
        raise InputError(
            f"probs[{start + at}] is {float(probs[at])}: probs (N,) are P(y = 1) and must be in [0, 1]; "
            "if these are logits, pass their sigmoid"
        )


def refuse_weights(metric: str, weights: Array | None, reason: str) -> None:
    if weights is not None:
        raise InputError(f"weights cannot be used with {metric}: {reason}; leave them out, or use ece or sce")


def check_length(name: str, array: Array, examples: int) -> None:
    if array.shape[0] != examples:
        raise InputError(
            f"{name} has {len(array)} entries for {examples} rows of probs: give one for each row"
        )


def check_range(name: str, values: Tensor, count: int, start: int = 0) -> None:
    """All `values` (integers) must be in 0..count-1; `start` is the index of the first, for the message."""
    least, most = torch.aminmax(values)
    if least.item() < 0 or most.item() >= count:
        at = int(((values < 0) | (values >= count)).nonzero()[0])
        raise InputError(f"{name}[{start + at}] is {int(values[at])}: it must be in 0..{count - 1}")


def check_rows(probs: Tensor, start: int = 0, tolerance: float = SUM_TOLERANCE) -> None:
    """Every row of `probs` (B, C) must be a distribution; `start` is the index of the first row.

    Two reductions detect everything: nan, infinity and a wrong sum show in the row sums, a negative number in
    the minimum (of the same bits read as integers: same sign bit, faster to compare). The offending index is
    searched for only if one of them fails.
    """
    sums = probs @ probs.new_ones(probs.shape[1])
    least, most = torch.aminmax(sums)
    sums_to_one = least.item() >= 1 - tolerance and most.item() <= 1 + tolerance
    bits = probs.view(torch.int32 if probs.dtype == torch.float32 else torch.int64)
    if sums_to_one and bits.min().item() >= 0:
        return
    for wrong, reason in (
        (~probs.isfinite(), "which is not finite: fix or drop row {row}"),
        (probs < 0, "and a probability cannot be negative; if these are logits, pass their softmax"),
    ):
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            place = f"probs[{start + row}, {column}] is {float(probs[row, column])}, "
            raise InputError(place + reason.format(row=start + row))
    if sums_to_one:
        return  # the negative number was -0.0
    row = int((sums - 1).abs().argmax())
    total = f"probs[{start + row}] sums to {float(sums[row]):.6g}"
    raise InputError(f"{total} instead of 1: these look like logits: pass softmax of them")


def check_logits(logits: Tensor, start: int = 0) -> None:
    """Every row of `logits` (M, B, C) must have a finite maximum: no nan, no +inf, not only -inf."""
    top = logits.amax(-1)
    if not top.isfinite().all():
        member, row = (~top.isfinite()).nonzero()[0].tolist()
        raise InputError(
            f"logits[{member}, {start + row}] has the maximum {float(top[member, row])}, "
            f"which is not finite: fix or drop row {start + row}"
        )


MOST = 1_000_000  # bins, classes, resamples


def check_count(name: str, value: int, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} is {value!r}: it must be an integer, at least {least}")
    if value > MOST:
        raise InputError(f"{name} is {value:,}: it must be at most {MOST:,}")
