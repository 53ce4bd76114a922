"""Uncertainty of an ensemble by its source, as entropies."""

from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.metrics.checks import Array, check_array, check_logits
from calmix.metrics.sample import BLOCK, floats


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Entropies in nats, (N,) each; total = data + knowledge."""

    total: Tensor
    data: Tensor
    knowledge: Tensor


def uncertainty(logits: Array) -> Uncertainty:
    """Entropy of each pooled prediction, and its parts, from logits (M, N, C).

    `total` is the entropy of the mean of the members' probabilities. `data` is the mean of their entropies:
    uncertainty that every member has. `knowledge` is the rest, the mutual information between label and
    member: they disagree. Logits of -inf are probabilities of 0.

    >>> import torch
    >>> parts = uncertainty(torch.tensor([[[0.0, -torch.inf]], [[-torch.inf, 0.0]]]))
    >>> parts.data.tolist(), parts.knowledge.exp().tolist()
    ([0.0], [2.0])
    """
    check_array("logits", logits, "members", "examples", "classes")
    members, examples, classes = logits.shape
    total, data = torch.empty(2, examples, dtype=torch.float64)
    step = max(1, BLOCK // (members * classes))
    for start in range(0, examples, step):
        block = floats(logits[:, start : start + step])
        check_logits(block, start)
        p = block.double().softmax(-1)
        part = slice(start, start + step)
        total[part] = torch.special.entr(p.mean(0)).sum(-1)
        data[part] = torch.special.entr(p).sum(-1).mean(0)
    # Entropy is concave: only rounding makes the difference negative.
    knowledge = (total - data).clamp_(min=0)
    return Uncertainty(data + knowledge, data, knowledge)
