"""Batch norm with one copy a member, and batch norm across processes."""

import copy
from collections.abc import Iterator
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from calmix.ensembles.members import require_channels, require_shares
from calmix.ensembles.swap import has_hooks, swap_modules
from calmix.errors import InputError


class MemberNorm(nn.Module):
    """One batch norm a member: of the rows (M * B, ...), member-major, each norm sees its own member's."""

    def __init__(self, norms: list[nn.Module]) -> None:
        super().__init__()
        self.norms = nn.ModuleList(norms)
        self.norms.training = norms[0].training

    def forward(self, x: Tensor) -> Tensor:
        require_shares(self.norms[0], x, len(self.norms))
        rows = x.shape[0] // len(self.norms)  # narrow and not chunk, which export cannot do for any number
        return torch.cat([norm(x.narrow(0, k * rows, rows)) for k, norm in enumerate(self.norms)])

    def unroll(self) -> Iterator[nn.Module]:
        """The norm of each member itself."""
        return iter(self.norms)

    def member(self, k: int) -> nn.Module:
        """The norm of member k alone, a copy."""
        return copy.deepcopy(self.norms[k])


class SumAcross(torch.autograd.Function):
    """The sum over all processes; the loss of each depends on it, so its gradient is their sum as well."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return sum_across(grad)


def sum_across(x: Tensor) -> Tensor:
    total: Tensor = SumAcross.apply(x)  # type: ignore[no-untyped-call]
    return total


class SynchronisedNorm(_BatchNorm):
    """Batch norm whose statistics in training are those of the rows of all processes, however many each has.

    Mean and variance take two small reductions, with gradients through both; torch's own SyncBatchNorm
    refuses tensors on a CPU. In evaluation, and where torch.distributed is not running, it is a plain batch
    norm.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of axes behind (rows, channels)."""

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training or self.running_mean is None) or not dist.is_initialized():
            return super().forward(x)
        require_channels(self, x.shape[1], self.num_features)
        shape = (1, -1) + (1,) * (x.ndim - 2)
        axes = [0, *range(2, x.ndim)]
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        sums = wide.sum(axes)
        total = sum_across(torch.cat([sums, sums.new_tensor([x.numel() / x.shape[1]])]))
        mean, count = total[:-1] / total[-1], total[-1].detach()
        centred = wide - mean.view(shape)
        variance = sum_across(centred.square().sum(axes)) / count
        if self.training:
            self._remember(mean.detach(), variance.detach() * count / (count - 1).clamp(min=1))
        scale = (variance + self.eps).rsqrt()
        if self.weight is not None:
            scale = scale * self.weight
        y = centred * scale.view(shape)
        if self.bias is not None:
            y = y + self.bias.view(shape)
        out: Tensor = y.to(x.dtype)
        return out

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(variance.to(self.running_var.dtype), momentum)


BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
Model = TypeVar("Model", bound=nn.Module)


def synchronise(model: Model) -> Model:
    """`model`, changed in place: its batch norms, shared or a member's own, reduce over all processes.

    Parameters and buffers stay the same objects under the same names, so that an optimiser or a checkpoint
    made before goes on to fit. A norm of another kind or with hooks is refused: they would be lost.

    >>> synchronise(nn.Sequential(nn.BatchNorm1d(3)))
    Sequential(
      (0): SynchronisedNorm(3, eps=1e-05, ...)
    )
    """
    for name, part in model.named_modules():
        if isinstance(part, BATCH_NORMS) and (type(part) not in BATCH_NORMS or has_hooks(part)):
            raise InputError(
                f"{name or 'the module itself'} ({type(part).__name__}) is no plain batch norm, or has "
                "hooks: it cannot be synchronised"
            )

    def swap(old: nn.Module) -> nn.Module | None:
        if not isinstance(old, BATCH_NORMS):
            return None
        new = SynchronisedNorm(old.num_features, old.eps, old.momentum, old.affine, old.track_running_stats)
        new._parameters, new._buffers = old._parameters, old._buffers
        return new

    return cast(Model, swap_modules(model, swap))
