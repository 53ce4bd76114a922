"""The member axis: how it enters an ensemble, and checks of what comes out."""

from typing import Any

from torch import Tensor, nn

from calmix.errors import InputError


def rows_of_members(x: Tensor, members: int, *, per_member: bool) -> Tensor:
    """What each member sees, (members, B, ...), of x (B, ...) for all or (members or 1, B, ...); no copy.

    >>> import torch
    >>> rows_of_members(torch.zeros(1, 5, 2), 4, per_member=True).shape
    torch.Size([4, 5, 2])
    """
    if x.ndim == 0:
        raise InputError("x is a single number; it must be (B, ...), rows first")
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


def require_channels(layer: nn.Module, found: int, channels: int) -> None:
    """One channel would otherwise be taken for as many as there are factors."""
    if found != channels:
        raise InputError(f"a {type(layer).__name__} for {channels} channels got {found}")


def require_rows(kind: str, out: Any, rows: Tensor) -> Tensor:
    """What a network made of rows, where that is one tensor with as many."""
    if not isinstance(out, Tensor) or out.ndim == 0 or out.shape[0] != rows.shape[0]:
        got = tuple(out.shape) if isinstance(out, Tensor) else f"a {type(out).__name__}"
        raise InputError(f"{kind} made {got} of {rows.shape[0]} rows: it must return one tensor, rows first")
    return out


def require_member(k: int, members: int) -> None:
    if not 0 <= k < members:
        raise InputError(f"there is no member {k}: they are numbered 0 to {members - 1}")
