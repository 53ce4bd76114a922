"""Logits and labels as every fit takes them: validated, read in blocks of rows, pooled in log space."""

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from calmix.errors import InputError
from calmix.metrics.checks import (
    Array,
    check_array,
    check_length,
    check_logits,
    check_range,
)
from calmix.metrics.sample import floats, integers
from calmix.metrics.trailing import class_rows, labelled_rows
from calmix.predictions.checks import refuse_probs

BLOCK = 1 << 18  # logits per block: a few MB in float64
KEPT = 1 << 20  # logits that a search keeps as float64: 8 MB


def fit_rows(logits: Array, labels: Array, ignore_index: int | None = None) -> tuple[Any, Tensor]:
    """Validated logits (M, N, C) and labels (N,), int64 on the CPU, for a fit.

    Of logits (M, N, C, ...) with labels (N, ...) every pixel is a row; those labelled `ignore_index` are left
    out.
    """
    if getattr(logits, "ndim", 3) > 3:
        expected = (logits.shape[1], *logits.shape[3:])
        given = tuple(getattr(labels, "shape", ()))
        if given != expected:
            raise InputError(
                f"labels have shape {given}, logits {tuple(logits.shape)}: give one label for each pixel, "
                f"{expected}; the classes are axis 2 of logits"
            )
        logits, labels = class_rows(logits, axis=2), labels.reshape(-1)
    if ignore_index is not None:
        check_array("logits", logits, "members", "examples", "classes")
        check_array("labels", labels, "examples", integers=True)
        check_length("labels", labels, logits.shape[1])
        kept = labelled_rows(integers(labels), ignore_index)
        if kept is not None:
            logits, labels = floats(logits)[:, kept], integers(labels)[kept]
    return logits, check_inputs(logits, labels)


def check_inputs(logits: Array, labels: Array) -> Tensor:
    """Validate logits (M, N, C) and labels (N,) for a fit; returns the labels in int64 on the CPU."""
    check_values(logits)
    check_array("labels", labels, "examples", integers=True)
    check_length("labels", labels, logits.shape[1])
    target = integers(labels)
    check_range("labels", target, logits.shape[2])
    return target


def check_values(logits: Array) -> None:
    """Logits (M, N, C): no nan, no +inf, no row of -inf, and not probabilities.

    -inf is the logarithm of a probability of 0 and is allowed.
    """
    check_array("logits", logits, "members", "examples", "classes")
    for rows in blocks(logits):
        check_logits(floats(logits[:, rows]), rows.start)
    refuse_probs(floats(logits))


def blocks(logits: Array) -> list[slice]:
    """Consecutive rows (examples) of logits (M, N, C), `BLOCK` values at a time."""
    members, examples, classes = logits.shape
    rows = max(1, BLOCK // (members * classes))
    return [slice(start, start + rows) for start in range(0, examples, rows)]


def log_pool(logits: Tensor) -> Tensor:
    """log of the pooled probabilities (N, C), without underflow, which a large temperature makes visible."""
    return logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))


def log_pool_rows(logits: Array) -> Tensor:
    """`log_pool` in float64 on the CPU, block by block; (N, C), each class's values side by side."""
    members = logits.shape[0]
    parts = [columns(logits, rows).log_softmax(1).logsumexp(0) for rows in blocks(logits)]
    return torch.cat(parts, 1).sub_(math.log(members)).T


def columns(logits: Array, rows: slice) -> Tensor:
    """Rows of logits (M, N, C) as float64 (M, C, B): over few classes a softmax is then 7 times as fast."""
    return floats(logits[:, rows]).transpose(1, 2).contiguous().double()


class ColumnBlocks:
    """Blocks (rows, `prepare` of their columns) of logits (M, N, C), for a search that reads them often.

    Few are made once and kept, many on every pass.
    """

    def __init__(self, logits: Array, prepare: Callable[[Tensor], Tensor] = lambda values: values) -> None:
        self._logits, self._prepare = logits, prepare
        self._kept = list(self._make()) if math.prod(logits.shape) <= KEPT else None

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        return self._make() if self._kept is None else iter(self._kept)

    def _make(self) -> Iterator[tuple[slice, Tensor]]:
        return ((rows, self._prepare(columns(self._logits, rows))) for rows in blocks(self._logits))


def log_loss(log_probs: Tensor, labels: Tensor) -> Tensor:
    """-log p at the label, (N,), of log_probs (N, C)."""
    return -log_probs.gather(1, labels[:, None])[:, 0]


def possible_rows(losses: Tensor, what: str) -> Tensor:
    """The examples whose label has a probability above 0, bool (N,); warns if there are others."""
    possible = losses.isfinite()
    if not possible.all():
        warnings.warn(
            f"{int((~possible).sum())} labels have probability 0, the first that of example "
            f"{int((~possible).nonzero()[0])}: no {what} changes that, it is fitted to the others",
            stacklevel=4,
        )
    return possible
