"""Losses per member and example, (members, B); the caller reduces."""

import math

import torch
from torch import Tensor

from calmix.augment.labels import check_range, check_tensor
from calmix.errors import InputError


def cross_entropy(logits: Tensor, targets: Tensor, *, ignore_index: int | None = None) -> Tensor:
    """Cross-entropy of each member on each row, -sum_c t_c log softmax(z)_c, (M, B).

    logits (M, B, C); targets are probabilities (M or 1, B, C), or whole-number labels (B,) or (M, B). With
    trailing axes, as in segmentation, logits are (M, B, C, ...), targets (M or 1, B, C, ...) or labels
    (B, ...) or (M, B, ...), and values (M, B, ...). Where a label is `ignore_index` the value is 0: for the
    mean over the others divide the sum by their number.

    >>> cross_entropy(torch.zeros(2, 3, 4), torch.tensor([0, 1, 2])).shape
    torch.Size([2, 3])
    >>> cross_entropy(torch.zeros(1, 1, 4, 2), torch.tensor([[3, 255]]), ignore_index=255)
    tensor([[[1.3863, 0.0000]]])
    """
    check_tensor(logits, "logits")
    check_tensor(targets, "targets")
    if logits.ndim < 3:
        raise InputError(f"logits have shape {tuple(logits.shape)}; give (members, examples, classes)")
    members, rows, classes, *more = logits.shape
    log_probs = logits.log_softmax(2)
    if targets.is_floating_point():
        if targets.shape not in {(members, rows, classes, *more), (1, rows, classes, *more)}:
            raise InputError(
                f"targets have shape {tuple(targets.shape)}, logits {tuple(logits.shape)}; give targets "
                f"{_axes(f'{members} or 1', rows, classes, *more)}, or whole-number labels "
                f"{_axes(rows, *more)}"
            )
        if ignore_index is not None:
            raise InputError("ignore_index is for whole-number labels; give targets of 0 where to ignore")
        # 0 * -inf is NaN, and a class without probability costs nothing where the target has none either.
        return -(targets * log_probs.masked_fill(targets == 0, 0)).sum(2)
    if targets.shape not in {(rows, *more), (members, rows, *more)}:
        raise InputError(
            f"labels have shape {tuple(targets.shape)}; give {_axes(rows, *more)} or "
            f"{_axes(members, rows, *more)}"
        )
    labels = targets.long()
    if ignore_index is not None:
        ignored = labels == ignore_index
        labels = labels.masked_fill(ignored, 0)
    check_range(labels if ignore_index is not None else targets, classes, "targets", "the number of classes")
    values = -log_probs.gather(2, labels.expand(members, rows, *more).unsqueeze(2)).squeeze(2)
    return values if ignore_index is None else values.masked_fill(ignored, 0)


def jensen_shannon(logits: Tensor) -> Tensor:
    """How far the views of an image disagree: the Jensen-Shannon divergence of their predictions, (M, B).

    logits (views, M, B, C, ...) -> the mean over views of KL(p_v || mean of the p_v), (M, B, ...), in nats,
    between 0 and log(views). AugMix (Hendrycks et al., 2020) adds it to the loss with weight 12, over the
    clean and two augmented views.

    >>> jensen_shannon(torch.tensor([[[[0.0, 500.0]]], [[[500.0, 0.0]]]]))
    tensor([[0.6931]])
    """
    check_tensor(logits, "logits")
    if logits.ndim < 4:
        raise InputError(f"logits have shape {tuple(logits.shape)}; give (views, members, examples, classes)")
    log_probs = logits.log_softmax(3)
    log_probs = log_probs.clamp(min=torch.finfo(log_probs.dtype).min)  # -inf - -inf would be NaN
    log_mean = log_probs.logsumexp(0) - math.log(len(logits))
    return (log_probs.exp() * (log_probs - log_mean)).sum(3).mean(0)


def _axes(*sizes: object) -> str:
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"
