"""Deep ensembles (Lakshminarayanan et al., 2017): networks that share nothing."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from calmix.ensembles.members import require_member, rows_of_members
from calmix.errors import InputError


class DeepEnsemble(nn.Module):
    """Independent networks behind one call: x (B, ...), `per_member` (M or 1, B, ...), -> logits (M, B, C).

    A single network is an ensemble of one.

    >>> DeepEnsemble([nn.Linear(2, 3), nn.Linear(2, 3)])(torch.rand(5, 2)).shape
    torch.Size([2, 5, 3])
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        if not modules:
            raise InputError("modules is empty: an ensemble needs at least one network")
        parameters = [p for module in modules for p in module.parameters()]
        if len(set(modules)) < len(modules) or len(set(parameters)) < len(parameters):
            raise InputError("two of the modules share parameters: members must be separate networks")
        self.networks = nn.ModuleList(modules)

    @property
    def members(self) -> int:
        return len(self.networks)

    def forward(self, x: Tensor, *, per_member: bool = False) -> Tensor:
        rows = rows_of_members(x, self.members, per_member=per_member)
        # A copy for each: what one network changes in place, the next must not see.
        return torch.stack([network(own.clone()) for network, own in zip(self.networks, rows, strict=True)])

    def member(self, k: int) -> nn.Module:
        """Network k itself, not a copy."""
        require_member(k, self.members)
        return self.networks[k]

    def describe(self) -> str:
        kinds = ", ".join(dict.fromkeys(type(network).__name__ for network in self.networks))
        count = sum(p.numel() for p in self.parameters())
        return f"DeepEnsemble of {self.members} x {kinds}: {count:,} parameters"
