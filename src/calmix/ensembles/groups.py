"""Where weight decay goes."""

from typing import Any

from torch import nn

from calmix.ensembles.layers import RankOne
from calmix.ensembles.norm import MemberNorm


def parameter_groups(model: nn.Module, *, weight_decay: float = 2e-4) -> list[dict[str, Any]]:
    """Two groups for any optimiser: the parameters that decay, and those that never do.

    What belongs to one member alone to scale or shift others' work, r and s and its own batch norm, does not
    decay: pulled to 0 rather than to 1, it would pull the members together. Kernels, biases and shared norms
    decay. It goes by the type of a module, not by names, and leaves no parameter out. torch's weight decay is
    twice the coefficient of an l2 penalty.

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
