"""What may enter: every refusal names the argument, the offending value, its place, and what to do."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from calmix.errors import InputError

Array: TypeAlias = Tensor | npt.NDArray[Any]

SUM_TOLERANCE = 1e-3  # how far a row of probabilities may be from 1


def check_array(name: str, array: Array, *axes: str, integers: bool = False) -> None:
    """`array` is a tensor or NumPy array of numbers with the axes named, none of them empty."""
    if not isinstance(array, Tensor | np.ndarray):
        raise InputError(
            f"{name} must be a torch tensor or a NumPy array, not {type(array).__name__}; "
            f"numpy.asarray({name}) makes one"
        )
    shape, wanted = tuple(array.shape), f"({', '.join(axes)})"
    if len(shape) != len(axes):
        raise InputError(f"{name} must have the axes {wanted}, but its shape is {shape}")
    for axis, size in zip(axes, shape, strict=True):
        if size == 0:
            raise InputError(f"{name} of shape {shape} has no {axis}: at least one is needed")
    if isinstance(array, Tensor):
        whole = not (array.is_floating_point() or array.is_complex() or array.dtype == torch.bool)
        floating = array.is_floating_point()
    else:
        whole, floating = array.dtype.kind in "iu", array.dtype.kind == "f"
    if integers and not whole:
        raise InputError(f"{name} must hold integers, not {array.dtype}")
    if not integers and not floating:
        raise InputError(f"{name} must hold floating-point numbers, not {array.dtype}")


def check_length(name: str, array: Array, examples: int) -> None:
    if array.shape[0] != examples:
        raise InputError(
            f"{name} has {array.shape[0]} entries for {examples} rows of probs: give one for each row"
        )


def check_range(name: str, values: Tensor, count: int, start: int = 0) -> None:
    """Every one of `values` (integers; the first stands at place `start`) is in 0..count-1."""
    least, most = torch.aminmax(values)
    if least.item() < 0 or most.item() >= count:
        at = int(((values < 0) | (values >= count)).nonzero()[0])
        raise InputError(f"{name}[{start + at}] is {int(values[at])}: it must be in 0..{count - 1}")


def check_rows(probs: Tensor, start: int = 0, name: str = "probs") -> None:
    """Every row of `probs` (B, C) is a distribution; `start` is the place of the first row.

    Two reductions see everything: a nan, an infinity or a wrong sum shows in the row sums, a negative number
    in the minimum (of the same bits read as integers, which have their sign in the same place and are
    compared faster). Only then is the place looked for.
    """
    sums = probs @ probs.new_ones(probs.shape[1])
    least, most = torch.aminmax(sums)
    summing = least.item() >= 1 - SUM_TOLERANCE and most.item() <= 1 + SUM_TOLERANCE
    if summing and probs.view(torch.int32 if probs.dtype == torch.float32 else torch.int64).min().item() >= 0:
        return
    for found, what in (
        (~probs.isfinite(), "which is not a number to count with: remove or mend the row"),
        (probs < 0, "and a probability cannot be negative; if these are logits, pass their softmax"),
    ):
        if found.any():
            row, column = found.nonzero()[0].tolist()
            raise InputError(f"{name}[{start + row}, {column}] is {float(probs[row, column])}, {what}")
    if summing:
        return  # the sign was that of a zero
    row = int((sums - 1).abs().argmax())
    raise InputError(
        f"{name}[{start + row}] sums to {float(sums[row]):.6g} instead of 1: "
        "these look like logits: pass softmax of them"
    )


def check_count(name: str, value: int, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} is {value!r}: it must be a whole number, at least {least}")
