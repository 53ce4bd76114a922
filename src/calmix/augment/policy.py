"""Policies: which examples of a batch are mixed. What they share, and the one that never changes.

policy(y, group, index) -> bool (B,) or (members, B), with y, group and index (B,) or (members, B). Optional
parts of a policy, used where it has them:

    observe(train_logits, y, index)            after a step
    validate(val_logits, val_labels, group)    for each batch of validation data
    update()                                   after an epoch
    pairs(y, group, index, partner)            instead of the call, where the partner counts too
    active                                     bool (members, groups): what is mixed now; changed in place
    state()                                    its tensors by name, to be saved with the mixer; a policy that
                                               is a module is saved anyway
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from calmix.errors import InputError

Policy = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]


@dataclass(eq=False)
class FixedClasses:
    """Mix all classes or none: `active` (members, classes) is what it was at first."""

    members: int
    num_classes: int
    mixed: bool

    def __post_init__(self) -> None:
        self.active = shared_zeros(self.members, self.num_classes, dtype=torch.bool).fill_(self.mixed)

    def __call__(self, y: Tensor, group: Tensor | None, index: Tensor | None) -> Tensor:
        return lookup(self.active, y)

    def images(self, like: Tensor) -> Tensor:
        """Whether images whose pixels have labels are mixed: those of all classes, or of none."""
        whole = self.active.all(1, keepdim=True)
        if (self.active != whole).any():
            raise InputError(
                "active differs between classes, and an image of labelled pixels has many: set all"
            )
        return whole.to(like.device).expand(len(whole), like.shape[-1])

    def state(self) -> dict[str, Tensor]:
        return {"active": self.active}


def shared_zeros(*shape: int, dtype: torch.dtype) -> Tensor:
    """Zeros in shared memory: the workers of a DataLoader see what is changed in place."""
    zeros = torch.zeros(shape, dtype=dtype)
    zeros.share_memory_()
    return zeros


def lookup(values: Tensor, index: Tensor) -> Tensor:
    """values (members, n) at index (B,) or (members, B) -> (members, B), on the device of `index`."""
    rows = index.to(values.device).expand(max(len(values), index.shape[:-1].numel()), -1)
    return values.expand(len(rows), -1).gather(1, rows).to(index.device)


def sum_over_processes(values: Tensor) -> Tensor:
    """The sum over all processes of `torch.distributed`; without it the values as they are."""
    if not (dist.is_available() and dist.is_initialized()):
        return values
    total = values.to("cuda" if dist.get_backend() == "nccl" else values.device, copy=True)
    dist.all_reduce(total)
    return total.to(values.device)
