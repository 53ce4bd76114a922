# ruff: noqa: PT028  (test_batches is no test)
"""Batches: which examples, in which order, for which member and process; nothing to save between steps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.data.dataset import Draws, Examples
from calmix.errors import InputError
from calmix.seeds import generator


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs `(B, C, H, W)`, float32 in [0, 1], or `(B, F)`; labels, groups and positions in the part `(B,)`.

    With `as_bytes` images stay uint8, which are quicker to crop; `as_floats` does the rest.

    Where the batch was asked for several members, everything has them as the first axis.
    """

    inputs: Tensor
    labels: Tensor
    index: Tensor
    groups: Tensor | None


def steps_per_epoch(n: int, batch_size: int) -> int:
    """Batches in one pass over `n` examples: the last partial one is dropped, unless it is the only one.

    >>> steps_per_epoch(47_500, 128), steps_per_epoch(100, 128)
    (371, 1)
    """
    if n < 1 or batch_size < 1:
        raise InputError(f"n: {n}, batch_size: {batch_size}; both must be at least 1")
    return max(1, n // batch_size)


def train_batches(
    part: Examples,
    *,
    batch_size: int = 128,
    seed: int = 0,
    epoch: int = 0,
    member: int | Sequence[int] = 0,
    start: int = 0,
    shard: int = 0,
    shards: int = 1,
    device: torch.device | str = "cpu",
    as_bytes: bool = False,
) -> Iterator[Batch]:
    """The batches of one epoch from step `start` on, in an order that belongs to (seed, member, epoch).

    One `member` gives batches `(B, ...)`; several give `(len(member), B, ...)`, a row in the order that its
    member has alone. `batch_size` counts the whole batch: shard r gets the r-th contiguous piece of it. See
    `steps_per_epoch` for the last batch.

    >>> from calmix.data.clusters import load_clusters
    >>> part = load_clusters().train
    >>> whole = [batch.index for batch in train_batches(part, batch_size=300, epoch=7)]
    >>> resumed = next(train_batches(part, batch_size=300, epoch=7, start=2))
    >>> bool((resumed.index == whole[2]).all())
    True
    """
    steps = steps_per_epoch(len(part), batch_size)
    if not 0 <= start <= steps:
        raise InputError(f"start: step {start} of an epoch of {steps}; give 0 to {steps}")
    if shards > 0 and batch_size % shards:
        raise InputError(f"batch_size: {batch_size} does not divide by shards, {shards}")
    members = (member,) if isinstance(member, int) else tuple(member)
    if not members:
        raise InputError("member: an empty sequence; give a number, or one number for each row of a batch")
    size = min(batch_size, len(part))
    piece = _piece(size, shard, shards)
    orders = torch.stack(
        [torch.randperm(len(part), generator=generator(seed, "order", m, epoch)) for m in members]
    )
    batches = [orders[:, step * size : (step + 1) * size][:, piece] for step in range(start, steps)]
    made = _batches(part, batches, Draws(seed, epoch, members), device, as_bytes)
    return map(_only_member, made) if isinstance(member, int) else made


def test_batches(
    part: Examples,
    *,
    batch_size: int = 500,
    shard: int = 0,
    shards: int = 1,
    device: torch.device | str = "cpu",
) -> Iterator[Batch]:
    """Every example once, in order, also the last partial batch; shard r gets the r-th contiguous range."""
    if batch_size < 1:
        raise InputError(f"batch_size: {batch_size}; give at least 1")
    mine = torch.arange(len(part))[_piece(len(part), shard, shards)]
    batches = [mine[low : low + batch_size] for low in range(0, len(mine), batch_size)]
    return _batches(part, batches, None, device, as_bytes=False)


def as_floats(inputs: Tensor) -> Tensor:
    """Bytes as float32 in [0, 1]; floats as they are.

    >>> as_floats(torch.tensor([0, 255], dtype=torch.uint8))
    tensor([0., 1.])
    """
    return inputs.float().div_(255) if inputs.dtype == torch.uint8 else inputs


def _piece(size: int, shard: int, shards: int) -> slice:
    if not 0 <= shard < shards:
        raise InputError(f"shard: {shard} of {shards}; give 0 <= shard < shards")
    return slice(shard * size // shards, (shard + 1) * size // shards)


def _batches(
    part: Examples, batches: Sequence[Tensor], draws: Draws | None, device: torch.device | str, as_bytes: bool
) -> Iterator[Batch]:
    for index, inputs in zip(batches, part.read(batches, draws), strict=True):
        inputs = inputs.to(device, non_blocking=True)  # images travel as bytes and become floats over there
        if not as_bytes:
            inputs = as_floats(inputs)
        at = index.to(part.labels.device)
        groups = None if part.groups is None else part.groups[at].to(device)
        yield Batch(inputs, part.labels[at].to(device), index.to(device), groups)


def _only_member(batch: Batch) -> Batch:
    groups = None if batch.groups is None else batch.groups[0]
    return Batch(batch.inputs[0], batch.labels[0], batch.index[0], groups)
