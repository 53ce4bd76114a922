"""The validation split: the examples on which CAMixup watches the calibration of each class."""

import torch
from torch import Tensor

from calmix.errors import InputError
from calmix.seeds import generator


def split(labels: Tensor, size: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Positions for training and for validation: each class gives its share of `size` examples.

    `labels` is `(N,)`; both indices are sorted, and each position is in exactly one. The share of class c is
    size * n_c / N; what rounding down leaves over goes to the largest remainders, among equals to the smaller
    label.

    >>> train, validation = split(torch.tensor([0, 0, 0, 0, 1, 1]), 3)
    >>> len(train), torch.tensor([0, 0, 0, 0, 1, 1])[validation]
    (3, tensor([0, 0, 1]))
    """
    if labels.ndim != 1:
        raise InputError(f"labels: shape {tuple(labels.shape)}; give one label for each example, (N,)")
    n = len(labels)
    if not 0 <= size <= n:
        raise InputError(f"size: {size} validation examples of {n}; give 0 to {n}")
    labels = labels.cpu()
    _, column, count = torch.unique(labels, return_inverse=True, return_counts=True)
    share = size * count // max(n, 1)
    remainder = size * count % max(n, 1)
    share[remainder.argsort(descending=True, stable=True)[: size - int(share.sum())]] += 1

    shuffled = torch.randperm(n, generator=generator(seed, "validation"))
    by_class = shuffled[column[shuffled].argsort(stable=True)]
    place_in_class = torch.arange(n) - (count.cumsum(0) - count).repeat_interleave(count)
    chosen = torch.zeros(n, dtype=torch.bool)
    chosen[by_class[place_in_class < share.repeat_interleave(count)]] = True
    return (~chosen).nonzero()[:, 0], chosen.nonzero()[:, 0]
