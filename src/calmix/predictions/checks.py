"""Validators of predictions: each returns the array that is kept, or names the example that is wrong."""

from typing import Any

import numpy as np
import torch

from calmix.errors import InputError

NumpyArray = np.ndarray[Any, Any]
SUM_TOLERANCE = 1e-3  # largest deviation of a row's sum from 1
ROUNDING = 0.05  # ... that `normalise` takes for rounding
FEW_ROWS = 8  # so few rows of logits can sum to 1 by chance: only an exact sum makes them probabilities


def numbers(name: str, values: Any) -> tuple[NumpyArray, float]:
    """An array of numbers in the machine's own byte order, float32 or float64, and its rounding error."""
    array = numpy_array(values)
    if array.dtype.kind == "O":
        array = _numbers_of_objects(name, array)
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} must be numbers, got {array.dtype}")
    if name == "probs" and array.ndim == 1 and array.size:
        pass  # P(y = 1)
    elif array.ndim not in (2, 3) or 0 in array.shape or array.shape[-1] < 2:
        expected = "(N, C) or (M, N, C) with at least one example and two classes"
        hint = ""
        if array.ndim == 2 and array.shape[1] == 1 and name == "probs":
            hint = "; if the column is P(y = 1), pass probs[:, 0]"
        elif array.ndim == 1 and array.size:
            hint = "; if these are P(y = 1), make Predictions.from_probs"
        raise InputError(f"{name} must be {expected}, got shape {array.shape}{hint}")
    half = isinstance(values, torch.Tensor) and values.dtype == torch.bfloat16
    kind = torch.bfloat16 if half else None
    rounding = (
        torch.finfo(kind).eps if kind else np.finfo(array.dtype).eps if array.dtype.kind == "f" else 0.0
    )
    small = array.dtype.itemsize <= 4 and array.dtype.kind == "f"
    with np.errstate(over="ignore"):  # longer floats that do not fit are infinite, and refused as such
        return array.astype(np.float32 if small else np.float64, copy=False), float(rounding)


def _numbers_of_objects(name: str, array: NumpyArray) -> NumpyArray:
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be numbers, got objects such as {array.flat[0]!r:.60}") from None


def check_logits(logits: NumpyArray) -> NumpyArray:
    """Logits (M, N, C): no nan, no +inf, no row of -inf, and not probabilities."""
    # A logit of -inf is a probability of 0; +inf, nan, or a row of -inf is not a distribution.
    top = logits.max(-1)
    if not np.isfinite(top).all():
        member, example = np.argwhere(~np.isfinite(top))[0]
        row = logits[member, example]
        raise InputError(
            f"the logits of example {example}, member {member} are not finite, got {row[:8]}: "
            f"fix or drop row {example}"
        )
    refuse_probs(logits)
    return logits


def refuse_probs(logits: NumpyArray | torch.Tensor) -> None:
    """Rows of logits (M, N, C, ...) that are all on the simplex are probabilities, whatever they are called.

    A few rows of logits can be there by chance: those are refused only if they sum to 1 up to rounding.
    """
    rows = logits.shape[0] * logits.shape[1]
    eps = torch.finfo(logits.dtype).eps if isinstance(logits, torch.Tensor) else np.finfo(logits.dtype).eps
    tolerance = max(SUM_TOLERANCE, eps) if rows >= FEW_ROWS else 8 * eps
    for part in (logits[:1, :FEW_ROWS], logits):  # nearly all logits are told by a few rows
        if not bool((part >= 0).all()) or not bool((abs(part.sum(2) - 1) <= tolerance).all()):
            return
    raise InputError(
        "these logits are probabilities: every row is at least 0 and sums to 1. Say so: "
        'Predictions.from_probs(probs, ...), or values="probs"'
    )


def log_probs(probs: NumpyArray, *, rounding: float = 0.0, normalise: bool = False) -> NumpyArray:
    """Logarithms of probabilities (M, N, C), whose rows must be at least 0 and sum to 1.

    `normalise` divides rows by their sum where that is off by rounding, up to 5 %.
    """
    total = probs.sum(-1, dtype=np.float64)
    tolerance = ROUNDING if normalise else max(SUM_TOLERANCE, rounding)
    wrong = ~((probs.min(-1) >= 0) & (np.abs(total - 1) <= tolerance))
    if wrong.any():
        member, example = np.argwhere(wrong)[0]
        row, off = probs[member, example], abs(total[member, example] - 1)
        hint = "if these are logits, load them as logits"
        if row.min() >= 0 and off <= ROUNDING:
            hint = "if the sum is off by rounding alone, normalise=True divides each row by its sum"
        raise InputError(
            f"the probabilities of example {example}, member {member} must be at least 0 "
            f"and sum to 1, got {row[:8]} (sum {total[member, example]:.6g}); {hint}"
        )
    if normalise:
        probs = (probs / total[..., None]).astype(probs.dtype)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probs))


def check_labels(labels: Any, examples: int, num_classes: int, names: tuple[str, ...] | None) -> torch.Tensor:
    """Labels (N,) as class numbers in int64: numbers, whole floats, booleans, or names of classes."""
    array = numpy_array(labels)
    if array.shape != (examples,):
        hint = (
            "; if they are one-hot, pass labels.argmax(1)" if array.shape == (examples, num_classes) else ""
        )
        raise InputError(f"labels must have shape ({examples},), got {array.shape}{hint}")
    if array.dtype.kind in "USO":
        array = _class_numbers(texts("labels", array), names)
    if array.dtype.kind == "f":
        part = ~(array == np.floor(array)) | (np.abs(array) > 2**53)
        if part.any():
            i = int(part.argmax())
            raise InputError(f"labels must be integers, got {array[i]} for example {i}")
    elif array.dtype.kind not in "iub":
        raise InputError(f"labels must be integers, got {array.dtype}")
    outside = (array < 0) | (array >= num_classes)
    if outside.any():
        i = int(outside.argmax())
        raise InputError(f"label {array[i]} of example {i} is outside 0..{num_classes - 1}")
    return torch.from_numpy(array.astype(np.int64))


def _class_numbers(labels: list[str], names: tuple[str, ...] | None) -> NumpyArray:
    if names is not None:
        number = {name: k for k, name in enumerate(names)}
        if all(text in number for text in labels):
            return np.array([number[text] for text in labels])
    try:
        return np.array([float(text) for text in labels])
    except ValueError:
        known = set(names or ())
        i, text = next((i, t) for i, t in enumerate(labels) if t not in known and not _is_number(t))
    if names is None:
        raise InputError(
            f"label {text!r} of example {i} is a name: give the names of all classes in order, classes=[...]"
        )
    raise InputError(f"label {text!r} of example {i} is none of the classes {', '.join(names[:12])}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def column(name: str, values: Any, examples: int) -> NumpyArray:
    """A column (N,) of numbers or strings."""
    array = numpy_array(values)
    if array.shape != (examples,):
        raise InputError(f"{name} must have shape ({examples},), got {array.shape}")
    if array.dtype.kind in "SOMm":
        array = np.array(texts(name, array))
    if array.dtype.kind not in "biufU":
        raise InputError(f"{name} must be numbers or strings, got {array.dtype}")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def texts(name: str, array: NumpyArray) -> list[str]:
    try:
        values = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError as error:
        raise InputError(f"{name} must be UTF-8 text: {error}") from None
    return (
        [str(value) for value in values.tolist()]
        if array.dtype.kind not in "Mm"
        else values.astype(str).tolist()
    )


def numpy_array(values: Any) -> NumpyArray:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        return np.asarray((values.float() if values.dtype == torch.bfloat16 else values).numpy())
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"not an array: {error}") from None
