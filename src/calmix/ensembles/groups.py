"""Which parameters decay."""

from typing import Any

from torch import nn

from calmix.ensembles.layers import RankOne
from calmix.ensembles.norm import MemberNorm


def parameter_groups(model: nn.Module, *, weight_decay: float = 2e-4) -> list[dict[str, Any]]:
    """Two groups for any optimiser: the parameters that decay, and those that never do.

    The factors r and s of a BatchEnsemble, and each member's own norms and PReLU, never decay: towards 0
    instead of 1, decay would make the members alike. Everything else decays as in a plain network: weights,
    biases, norms and embeddings that are common to all members. Parameters are selected by the type of their
    module, not by name, and every parameter is in one of the groups. torch's weight decay is twice the
    coefficient of an l2 penalty.

    >>> from calmix.ensembles.batch import BatchEnsemble
    >>> decayed, free = parameter_groups(BatchEnsemble(nn.Linear(2, 3)), weight_decay=0.1)
    >>> [p.shape for p in free["params"]], free["weight_decay"]
    ([torch.Size([4, 3]), torch.Size([4, 2])], 0.0)
    """
    exempt = set()
    for module in model.modules():
        if isinstance(module, RankOne):
            exempt |= {module.r, module.s}
        elif isinstance(module, MemberNorm):
            exempt |= set(module.parameters())
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p not in exempt], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p in exempt], "weight_decay": 0.0},
    ]
