"""Losses per member and example, (members, B); the caller reduces."""

import math

import torch
from torch import Tensor

from calmix.augment.labels import check_range, check_tensor
from calmix.errors import InputError


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each member on each row, -sum_c t_c log softmax(z)_c, (M, B).

    logits (M, B, C); targets are probabilities (M or 1, B, C), or whole-number labels (B,) or (M, B).

    >>> cross_entropy(torch.zeros(2, 3, 4), torch.tensor([0, 1, 2])).shape
    torch.Size([2, 3])
    """
    check_tensor(targets, "targets")
    if logits.ndim != 3:
        raise InputError(f"logits have shape {tuple(logits.shape)}; give (members, examples, classes)")
    members, rows, classes = logits.shape
    log_probs = logits.log_softmax(-1)
    if targets.is_floating_point():
        if targets.shape not in {(members, rows, classes), (1, rows, classes)}:
            raise InputError(
                f"targets have shape {tuple(targets.shape)}, logits {tuple(logits.shape)}; "
                f"give targets ({members} or 1, {rows}, {classes}), or whole-number labels ({rows},)"
            )
        # 0 * -inf is NaN, and a class without probability costs nothing where the target has none either.
        return -(targets * log_probs.masked_fill(targets == 0, 0)).sum(-1)
    if targets.shape not in {(rows,), (members, rows)}:
        raise InputError(f"labels have shape {tuple(targets.shape)}; give ({rows},) or ({members}, {rows})")
    check_range(targets, classes, "targets", "the number of classes")
    return -log_probs.gather(-1, targets.long().expand(members, rows).unsqueeze(-1)).squeeze(-1)


def jensen_shannon(logits: Tensor) -> Tensor:
    """How far the views of an image disagree: the Jensen-Shannon divergence of their predictions, (M, B).

    logits (views, M, B, C) -> the mean over views of KL(p_v || mean of the p_v), in nats, between 0 and
    log(views). AugMix (Hendrycks et al., 2020) adds it to the loss with weight 12, over the clean and two
    augmented views.

    >>> jensen_shannon(torch.tensor([[[[0.0, 500.0]]], [[[500.0, 0.0]]]]))
    tensor([[0.6931]])
    """
    if logits.ndim != 4:
        raise InputError(f"logits have shape {tuple(logits.shape)}; give (views, members, examples, classes)")
    log_probs = logits.log_softmax(-1)
    log_probs = log_probs.clamp(min=torch.finfo(log_probs.dtype).min)  # -inf - -inf would be NaN
    log_mean = log_probs.logsumexp(0) - math.log(len(logits))
    return (log_probs.exp() * (log_probs - log_mean)).sum(-1).mean(0)
