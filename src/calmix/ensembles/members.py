"""The member axis: how it enters an ensemble, and whose turn it is inside."""

import threading

from torch import Tensor, nn

from calmix.errors import InputError


class Turn(threading.local):
    """Whose rows pass through a BatchEnsemble in this thread: one member's alone, or (None) those of all.

    Set on the instance, not the class, because torch.compile watches the former only. `weights` are those
    that layers have formed for the members who follow.
    """

    def __init__(self) -> None:
        self.member: int | None = None
        self.weights: dict[nn.Module, tuple[Tensor, ...]] = {}


TURN = Turn()


def rows_of_members(x: Tensor, members: int, *, per_member: bool) -> Tensor:
    """What each member sees, (members, B, ...), of x (B, ...) for all or (members or 1, B, ...); no copy.

    >>> import torch
    >>> rows_of_members(torch.zeros(1, 5, 2), 4, per_member=True).shape
    torch.Size([4, 5, 2])
    """
    if not per_member:
        return x.expand(members, *x.shape)
    if x.ndim < 2 or x.shape[0] not in (1, members):
        raise InputError(
            f"x has the shape {tuple(x.shape)}; with per_member=True it must be ({members} or 1, B, ...), "
            "the member axis first"
        )
    return x.expand(members, *x.shape[1:])


def require_shares(layer: nn.Module, x: Tensor, members: int) -> None:
    """Rows that members cannot share equally were not folded by a BatchEnsemble."""
    if x.shape[0] % members:
        raise InputError(
            f"a {type(layer).__name__} got {x.shape[0]} rows for {members} members: "
            "the module must keep the batch as the first axis"
        )


def require_member(k: int, members: int) -> None:
    if not 0 <= k < members:
        raise InputError(f"there is no member {k}: they are numbered 0 to {members - 1}")
