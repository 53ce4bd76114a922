"""Stratified validation split."""

import torch
from torch import Tensor

from calmix.errors import InputError
from calmix.seeds import generator


def split(labels: Tensor, size: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Indices for training and for validation, with the classes of `size` validation examples in proportion.

    `labels` is `(N,)`; both results are sorted, and each index is in exactly one of them. The share of class
    c is size * n_c / N, rounded down; the remaining examples go to the largest remainders, among equals to
    the smaller label.

    >>> train, validation = split(torch.tensor([0, 0, 0, 0, 1, 1]), 3)
    >>> len(train), torch.tensor([0, 0, 0, 0, 1, 1])[validation]
    (3, tensor([0, 0, 1]))
    """
    if labels.ndim != 1:
        raise InputError(f"labels must have shape (N,), got {tuple(labels.shape)}")
    n = len(labels)
    if not 0 <= size <= n:
        raise InputError(f"size must be in 0..{n}, the number of examples, got {size}")
    labels = labels.cpu()
    _, column, count = torch.unique(labels, return_inverse=True, return_counts=True)
    share = size * count // max(n, 1)
    remainder = size * count % max(n, 1)
    share[remainder.argsort(descending=True, stable=True)[: size - int(share.sum())]] += 1

    shuffled = torch.randperm(n, generator=generator(seed, "validation"))
    by_class = shuffled[column[shuffled].argsort(stable=True)]
    rank_in_class = torch.arange(n) - (count.cumsum(0) - count).repeat_interleave(count)
    validation = torch.zeros(n, dtype=torch.bool)
    validation[by_class[rank_in_class < share.repeat_interleave(count)]] = True
    return (~validation).nonzero()[:, 0], validation.nonzero()[:, 0]
