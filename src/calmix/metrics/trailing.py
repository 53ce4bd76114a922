"""Trailing axes: predictions for every pixel, brought to rows (N, C) and back.

The class axis comes right after the examples, as torch has it: probs (N, C, H, W) with labels (N, H, W),
logits (M, N, C, H, W). Every pixel becomes a row, image by image. Pixels of one image are not independent:
metrics are right, intervals that resample rows would be too narrow.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from calmix.errors import InputError
from calmix.metrics.checks import Array


def class_rows(values: Array, axis: int = 1) -> Any:
    """Values with the classes on `axis`, one example axis before it, as rows: the classes come last.

    >>> class_rows(torch.zeros(2, 10, 8, 8)).shape, class_rows(torch.zeros(4, 2, 10, 8, 8), axis=2).shape
    (torch.Size([128, 10]), torch.Size([4, 128, 10]))
    """
    if values.ndim == axis + 1:
        return values
    last = values.movedim(axis, -1) if isinstance(values, Tensor) else np.moveaxis(values, axis, -1)
    return last.reshape(*values.shape[: axis - 1], -1, values.shape[axis])


def from_class_rows(rows: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Rows (N * ..., C) in the shape (N, C, ...)."""
    if len(shape) == 2:
        return rows
    return rows.reshape(shape[0], *shape[2:], shape[1]).movedim(-1, 1)


def labelled_rows(labels: Array, ignore_index: int | None, name: str = "labels") -> Any:
    """Positions of the labels (N * ...) that are not `ignore_index`, or None for all of them."""
    if ignore_index is None:
        return None
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, int | np.integer):
        raise InputError(f"ignore_index is {ignore_index!r}: it must be an integer, such as 255")
    kept = labels != ignore_index
    if bool(kept.all()):
        return None
    if not bool(kept.any()):
        raise InputError(f"{name} are all {ignore_index}, the ignore_index: nothing is left")
    return torch.nonzero(kept)[:, 0] if isinstance(kept, Tensor) else np.flatnonzero(kept)
