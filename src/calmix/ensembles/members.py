"""Checks of the member axis, with errors that say what to change."""

from torch import Tensor, nn

from calmix.errors import InputError


def require_shares(layer: nn.Module, x: Tensor, members: int) -> None:
    """Raise InputError if the rows of `x` do not divide evenly among the members."""
    if x.shape[0] % members:
        raise InputError(
            f"a {type(layer).__name__} got {x.shape[0]} rows for {members} members: "
            "the module must keep the batch as the first axis"
        )


def require_channels(layer: nn.Module, got: int, channels: int) -> None:
    """Raise InputError on a wrong number of channels: a single one would be broadcast against the factors."""
    if got != channels:
        raise InputError(f"a {type(layer).__name__} for {channels} channels got {got}")


def require_member(k: int, members: int) -> None:
    if not 0 <= k < members:
        raise InputError(f"there is no member {k}: they are numbered 0 to {members - 1}")


def refuse_data_parallel(ensemble: nn.Module) -> None:
    """Raise InputError inside nn.DataParallel, which joins the logits of its replicas on axis 0."""
    if getattr(ensemble, "_is_replica", False):
        raise InputError(
            f"{type(ensemble).__name__} cannot run in nn.DataParallel: it joins the outputs of the devices on "
            "axis 0, which is the member axis of logits (M, B, C), so members and examples would be mixed up. "
            "Use DistributedDataParallel"
        )
