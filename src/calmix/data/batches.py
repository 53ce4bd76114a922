# ruff: noqa: PT028  (test_batches is not a test)
"""Batches: the order of examples for each seed, epoch, member and shard, without state to save."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.data.dataset import Draws, Examples
from calmix.errors import InputError
from calmix.seeds import generator


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs `(B, C, H, W)`, float32 in [0, 1], or `(B, F)`; labels, groups and indices in the part `(B,)`.

    With `as_bytes` images stay uint8, which are faster to crop; `as_floats` converts them.
    """

    inputs: Tensor
    labels: Tensor
    index: Tensor
    groups: Tensor | None


def steps_per_epoch(n: int, batch_size: int) -> int:
    """Batches in one pass over `n` examples: the last partial one is dropped unless it is the only one.

    >>> steps_per_epoch(47_500, 128), steps_per_epoch(100, 128)
    (371, 1)
    """
    if n < 1 or batch_size < 1:
        raise InputError(f"n and batch_size must be at least 1, got {n} and {batch_size}")
    return max(1, n // batch_size)


def train_batches(
    part: Examples,
    *,
    batch_size: int = 128,
    seed: int = 0,
    epoch: int = 0,
    member: int = 0,
    start: int = 0,
    shard: int = 0,
    shards: int = 1,
    device: torch.device | str = "cpu",
    as_bytes: bool = False,
) -> Iterator[Batch]:
    """Batches of one epoch from step `start` on, in the order given by (seed, member, epoch).

    `batch_size` is that of the whole batch: shard r gets its r-th contiguous slice. See `steps_per_epoch` for
    the last batch.

    >>> from calmix.data.clusters import load_clusters
    >>> part = load_clusters().train
    >>> whole = [batch.index for batch in train_batches(part, batch_size=300, epoch=7)]
    >>> resumed = next(train_batches(part, batch_size=300, epoch=7, start=2))
    >>> bool((resumed.index == whole[2]).all())
    True
    """
    steps = steps_per_epoch(len(part), batch_size)
    if not 0 <= start <= steps:
        raise InputError(f"start must be in 0..{steps}, the steps of an epoch, got {start}")
    if shards > 0 and batch_size % shards:
        raise InputError(f"batch_size must be a multiple of shards = {shards}, got {batch_size}")
    size = min(batch_size, len(part))
    mine = _shard_slice(size, shard, shards)
    order = torch.randperm(len(part), generator=generator(seed, "order", member, epoch))
    indices = [order[step * size : (step + 1) * size][mine] for step in range(start, steps)]
    return _read_batches(part, indices, Draws(seed, epoch, member), device, as_bytes)


def test_batches(
    part: Examples,
    *,
    batch_size: int = 500,
    shard: int = 0,
    shards: int = 1,
    device: torch.device | str = "cpu",
) -> Iterator[Batch]:
    """Every example once, in order, with the last partial batch; shard r gets the r-th contiguous range."""
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}")
    examples = torch.arange(len(part))[_shard_slice(len(part), shard, shards)]
    indices = [examples[low : low + batch_size] for low in range(0, len(examples), batch_size)]
    return _read_batches(part, indices, None, device, as_bytes=False)


def as_floats(inputs: Tensor) -> Tensor:
    """Bytes as float32 in [0, 1]; floats unchanged.

    >>> as_floats(torch.tensor([0, 255], dtype=torch.uint8))
    tensor([0., 1.])
    """
    return inputs.float().div_(255) if inputs.dtype == torch.uint8 else inputs


def _shard_slice(size: int, shard: int, shards: int) -> slice:
    if not 0 <= shard < shards:
        raise InputError(f"shard must be in 0..shards-1, got shard = {shard}, shards = {shards}")
    return slice(shard * size // shards, (shard + 1) * size // shards)


def _read_batches(
    part: Examples, indices: Sequence[Tensor], draws: Draws | None, device: torch.device | str, as_bytes: bool
) -> Iterator[Batch]:
    for index, inputs in zip(indices, part.read(indices, draws), strict=True):
        inputs = inputs.to(device, non_blocking=True)  # images are copied as bytes, converted on the device
        if not as_bytes:
            inputs = as_floats(inputs)
        at = index.to(part.labels.device)
        groups = None if part.groups is None else part.groups[at].to(device)
        yield Batch(inputs, part.labels[at].to(device), index.to(device), groups)
