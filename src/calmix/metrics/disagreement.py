"""Diversity of an ensemble: how much the predictions of its members differ."""

from dataclasses import dataclass

import torch

from calmix.errors import InputError
from calmix.metrics.checks import Array, check_array, check_logits
from calmix.metrics.sample import BLOCK, floats


@dataclass(frozen=True)
class Diversity:
    """Means over all pairs of members and all examples."""

    disagreement: float
    kl: float
    cosine: float


def diversity(logits: Array) -> Diversity:
    """Pairwise difference of the members' predictions, from logits (M, N, C) with M >= 2.

    `disagreement` is the share of examples with different predicted classes, `kl` the mean over ordered pairs
    of KL(p_a || p_b), `cosine` the mean cosine similarity of probability rows. Logits of -inf are
    probabilities of 0.

    >>> import torch
    >>> diversity(torch.tensor([[[9.0, -9.0]], [[-9.0, 9.0]]])).disagreement
    1.0
    """
    check_array("logits", logits, "members", "examples", "classes")
    members, examples, classes = logits.shape
    if members < 2:
        raise InputError("logits has one member: diversity needs at least two")
    agree = kl = cosine = torch.zeros((), dtype=torch.float64)
    step = max(1, BLOCK // (members * classes))
    for start in range(0, examples, step):
        block = floats(logits[:, start : start + step])
        check_logits(block, start)
        logp = block.double().log_softmax(-1)
        p = logp.exp()
        # Sums over ordered pairs a != b from sums over members: sum_ab f_a g_b = (sum f)(sum g), less a = b.
        summed, logs = p.sum(0), logp.sum(0)
        cross = torch.where(summed > 0, summed * logs, 0)
        kl = kl - members * torch.special.entr(p).sum() - cross.sum()
        direction = p / p.norm(dim=-1, keepdim=True)
        cosine = cosine + direction.sum(0).square().sum() - members * p.shape[1]
        predicted = p.argmax(-1)
        votes = p.new_zeros(p.shape[1:]).scatter_add_(1, predicted.T, p.new_ones(predicted.T.shape))
        agree = agree + votes.square().sum() - members * p.shape[1]
    pairs = members * (members - 1) * examples
    return Diversity(1 - float(agree) / pairs, max(float(kl) / pairs, 0.0), float(cosine) / pairs)
