"""What all calibrators share: the protocol, application to arrays of any type, and their file."""

import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from calmix.calibrate.inputs import blocks, check_values
from calmix.errors import InputError
from calmix.metrics.checks import Array
from calmix.metrics.sample import floats
from calmix.metrics.trailing import class_rows, from_class_rows
from calmix.records import write_json

VERSION = 1


class Calibrator(Protocol):
    """A fitted calibrator: an nn.Module from logits (M, N, C) to calibrated pooled probabilities (N, C).

    `nll_before` and `nll_after` are those of the pool and of the calibrated probabilities on the data of the
    fit. `numbers` are the arguments that make the calibrator again.
    """

    method: str
    nll_before: float
    nll_after: float

    def __call__(self, logits: Array) -> Any: ...

    def probs(self, logits: Tensor) -> Tensor:
        """The formula alone, on a tensor of float32 or float64: no checks, traceable."""
        ...

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """The numbers of members and of classes that it needs, None for any."""
        ...

    def numbers(self) -> dict[str, Any]: ...

    def save(self, path: str | os.PathLike[str]) -> None: ...


def check_sizes(fitted: Calibrator, logits: Array) -> None:
    """Refuse logits of another number of members or classes than that of the fit."""
    for axis, name, size in zip((0, 2), ("members", "classes"), fitted.sizes, strict=True):
        if size is not None and logits.ndim >= 3 and logits.shape[axis] != size:
            raise InputError(
                f"logits has {logits.shape[axis]} {name}, but the {fitted.method} calibrator was fitted for "
                f"{size}: pass logits of that ensemble"
            )


def calibrated(fitted: Calibrator, logits: Array) -> Any:
    """`fitted.probs` of logits (M, N, C, ...), of the same array type and device, in float32 or float64.

    Computed in float64, block by block, on validated values. In a traced graph (torch.export, torch.compile)
    there is neither validation nor float64.
    """
    check_sizes(fitted, logits)
    if logits.ndim > 3:
        shape = tuple(logits.shape[1:])
        rows = torch.as_tensor(calibrated(fitted, class_rows(logits, axis=2)))
        probs = from_class_rows(rows, shape)
        return probs.numpy() if isinstance(logits, np.ndarray) else probs
    if torch.compiler.is_compiling():
        tensor = torch.as_tensor(logits)
        return fitted.probs(tensor.to(torch.promote_types(tensor.dtype, torch.float32)))
    check_values(logits)
    values = logits.detach() if isinstance(logits, Tensor) else floats(logits)
    dtype = torch.promote_types(values.dtype, torch.float32)
    wide = torch.float32 if values.device.type == "mps" else torch.float64  # Metal has no float64
    pooled = torch.cat([fitted.probs(values[:, rows].to(wide)).to(dtype) for rows in blocks(values)])
    return pooled.numpy() if isinstance(logits, np.ndarray) else pooled


def save_calibrator(fitted: Any, path: str | os.PathLike[str]) -> None:
    """Write method, version and numbers as JSON, atomically; `load_calibrator` returns the same bits."""
    write_json(Path(path), calibrator_content(fitted), indent=None)


def calibrator_content(fitted: Any) -> dict[str, Any]:
    """What a file holds of a calibrator, or of conformal sets, which have no losses."""
    losses = {name: getattr(fitted, name) for name in ("nll_before", "nll_after") if hasattr(fitted, name)}
    return {"method": fitted.method, "version": VERSION, "numbers": {**fitted.numbers(), **losses}}


def buffer(name: str, values: Any, axes: int, *, least: float = -np.inf) -> Tensor:
    """Numbers of a calibrator as a float64 tensor with so many axes, all finite and at least `least`."""
    try:
        tensor = torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InputError(f"{name} must be numbers, got {values!r:.60}") from None
    if tensor.ndim != axes or tensor.numel() == 0:
        raise InputError(f"{name} must have {axes} axes and be not empty, got shape {tuple(tensor.shape)}")
    if not (tensor.isfinite() & (tensor >= least)).all():
        raise InputError(f"{name} must be finite and at least {least:g}, got {values!r:.60}")
    return tensor


def loss_value(name: str, value: Any) -> float:
    """An NLL as its file has it: null is infinite."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InputError(f"{name} must be a number, got {value!r:.60}")
    try:
        return np.inf if value is None else float(value)
    except OverflowError:
        raise InputError(f"{name} is too large for a float, got {value!r:.60}") from None
