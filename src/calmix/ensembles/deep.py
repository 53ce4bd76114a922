"""Deep ensembles (Lakshminarayanan et al., 2017): networks that share nothing."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from calmix.ensembles.inputs import member_inputs, positional
from calmix.ensembles.members import refuse_data_parallel, require_member
from calmix.ensembles.outputs import Output, take_logits
from calmix.errors import InputError


class DeepEnsemble(nn.Module):
    """Independent networks behind one call: x (B, ...) -> logits (M, B, C).

    With `per_member=True`, x is (M or 1, B, ...). Several tensors may be given, by position or by name, each
    batch-first. `output` says how to take the logits out of what a network returns: a key or attribute
    ("logits"), an index, or a callable. A single network is an ensemble of one.

    >>> DeepEnsemble([nn.Linear(2, 3), nn.Linear(2, 3)])(torch.rand(5, 2)).shape
    torch.Size([2, 5, 3])
    """

    def __init__(self, modules: Sequence[nn.Module], *, output: Output = None) -> None:
        super().__init__()
        if not modules:
            raise InputError("modules is empty: an ensemble needs at least one network")
        parameters = [p for module in modules for p in module.parameters()]
        if len(set(modules)) < len(modules) or len(set(parameters)) < len(parameters):
            raise InputError("two of the modules share parameters: members must be separate networks")
        self.networks = nn.ModuleList(modules)
        self.output = output

    @property
    def members(self) -> int:
        return len(self.networks)

    def forward(self, x: Any = None, *more: Any, per_member: bool = False, **named: Any) -> Tensor:
        refuse_data_parallel(self)
        inputs = member_inputs(positional(x, more), named, self.members, per_member=per_member)
        logits = []
        for k, network in enumerate(self.networks):
            # A copy for each network: an in-place change must not reach the next one.
            own = inputs.map(lambda tensor, k=k: tensor[k].clone())  # type: ignore[misc]
            result = own.call(network)
            logits.append(take_logits(result, self.output, own.first.shape[0], type(network).__name__))
        return torch.stack(logits)

    def member(self, k: int) -> nn.Module:
        """Network k itself, not a copy."""
        require_member(k, self.members)
        return self.networks[k]

    def describe(self) -> str:
        kinds = ", ".join(dict.fromkeys(type(network).__name__ for network in self.networks))
        count = sum(p.numel() for p in self.parameters())
        return f"DeepEnsemble of {self.members} x {kinds}: {count:,} parameters"
