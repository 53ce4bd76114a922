"""Batch norm with one copy for each member, and batch norm across processes."""

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
    """One copy of a layer for each member: each sees the rows of its member, of (M * B, ...), member-major.

    For batch norms with `member_norm`, and for activations that have parameters (PReLU).
    """

    def __init__(self, norms: list[nn.Module]) -> None:
        super().__init__()
        self.norms = nn.ModuleList(norms)
        self.norms.training = norms[0].training

    def forward(self, x: Tensor) -> Tensor:
        require_shares(self.norms[0], x, len(self.norms))
        blocks = x.reshape(len(self.norms), x.shape[0] // len(self.norms), *x.shape[1:])
        return torch.cat([norm(block) for norm, block in zip(self.norms, blocks, strict=True)])

    def unroll(self) -> Iterator[nn.Module]:
        """The layer of each member in turn, not a copy."""
        return iter(self.norms)

    def member(self, k: int) -> nn.Module:
        """The layer of member k, a copy."""
        return copy.deepcopy(self.norms[k])


class SumAcross(torch.autograd.Function):
    """The sum over all processes. The loss of every process depends on it, so gradients are summed too."""

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
    """Batch norm with training statistics over the rows of all processes, which may have different numbers.

    Mean and variance take two small all-reduce operations, with gradients through both. torch's own
    SyncBatchNorm does not run on a CPU. In evaluation, and where torch.distributed is not running, this is a
    plain batch norm.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of axes after (rows, channels)."""

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
    """`model`, changed in place: its batch norms, common or of one member, reduce over all processes.

    Parameters and buffers stay the same objects under the same names, so that existing optimisers and
    checkpoints still fit. Subclasses of batch norms and norms with hooks are refused, because what they add
    would be lost.

    >>> synchronise(nn.Sequential(nn.BatchNorm1d(3)))
    Sequential(
      (0): SynchronisedNorm(3, eps=1e-05, ...)
    )
    """
    for name, part in model.named_modules():
        if isinstance(part, BATCH_NORMS) and (type(part) not in BATCH_NORMS or has_hooks(part)):
            raise InputError(
                f"{name or 'the module itself'} ({type(part).__name__}) is not a plain batch norm, or has "
                "hooks: it cannot be synchronised"
            )

    def swap(old: nn.Module) -> nn.Module | None:
        if not isinstance(old, BATCH_NORMS):
            return None
        new = SynchronisedNorm(old.num_features, old.eps, old.momentum, old.affine, old.track_running_stats)
        new._parameters, new._buffers = old._parameters, old._buffers
        return new

    return cast(Model, swap_modules(model, swap))
