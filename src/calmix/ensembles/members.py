"""The member axis at the door of an ensemble."""

from torch import Tensor

from calmix.errors import InputError


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


def check_member(k: int, members: int) -> None:
    if not 0 <= k < members:
        raise InputError(f"there is no member {k}: they are numbered 0 to {members - 1}")
