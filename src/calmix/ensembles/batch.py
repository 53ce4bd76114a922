"""BatchEnsemble (Wen et al., 2020): members with common weights and a rank-one factor each."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from calmix.ensembles.conversion import OWN_COPY, ROW_STATISTICS, common_parts
from calmix.ensembles.faithful import check_conversion, warn_if_far
from calmix.ensembles.inputs import Example, Inputs, each_member, example_inputs, member_inputs, positional
from calmix.ensembles.layers import RankOne, channels, is_layer
from calmix.ensembles.members import refuse_data_parallel, require_member
from calmix.ensembles.norm import MemberNorm
from calmix.ensembles.outputs import Output, take_logits
from calmix.ensembles.share import Share, check_share
from calmix.ensembles.swap import has_hooks, is_self_contained, swap_modules, with_replaced
from calmix.errors import InputError

UNROLL_ROWS = 32
"""From this many rows up, members are evaluated one after the other, which is faster."""


class BatchEnsemble(nn.Module):
    """`members` networks in one, from a batch-first module of linear, convolutional and norm layers.

    x (B, ...), or with `per_member` (M or 1, B, ...), -> (M, B, ...), in training as in evaluation. Several
    tensors may be given, by position or by name, each batch-first. `output` says how to take the logits out of
    what the module returns: a key or attribute ("logits"), an index, or a callable.

    Each linear layer and convolution keeps its weight W, and member k uses W o (r_k s_k^T): r scales the
    outputs, s the inputs, drawn from N(1, init_std), or +1 with `sign_probability` and -1 otherwise. Biases
    and PReLU get a copy for each member. Norms stay common to all members, so that a batch norm computes its
    statistics over the rows of all members; `member_norm` gives each member its own batch norms.

    `share` lists what else stays common to all members: module types (nn.Embedding, nn.LSTM,
    nn.MultiheadAttention), or names of modules and parameters with wildcards ("*.gamma"; a plain word such as
    "cls_token" is the last part of a name). Parameters that a rank-one factor cannot carry must be listed
    there; otherwise one error names all of them, with the `share=` line to use. Tied weights (unless all their
    owners are common), parametrised weights and layers with hooks are refused.

    **Converting a trained network**: use `init_std=0.1`. The default of 0.5 is for training from scratch and
    destroys much of what a trained network knows. With `example`, a UserWarning is issued if the members' top
    labels agree with the original's on less than 90 % of the example, and the original is confident enough to
    be trained: mean confidence above 1 / C + 0.25 (1 - 1 / C).

    `module` itself is not changed. Rows are folded member-major into the batch, (M * B, ...), so the module
    must treat rows alike and keep them first between its layers; `example` (an input (B, ...), a tuple of
    inputs, or a dictionary by name) has that checked. In evaluation without gradients, from 32 rows up,
    members run one after the other where that gives the same result, on shallow copies of the module:
    attributes that it sets on itself meanwhile are lost.

    >>> model = BatchEnsemble(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)), members=4)
    >>> model(torch.rand(5, 2)).shape, model(torch.rand(4, 5, 2), per_member=True).shape
    (torch.Size([4, 5, 3]), torch.Size([4, 5, 3]))
    >>> print(model.describe())
    BatchEnsemble of 4 x Sequential: 51 parameters and 117 more for the members (229.41%)
    >>> text = nn.Sequential(nn.Embedding(100, 8), nn.Flatten(), nn.Linear(40, 3))
    >>> BatchEnsemble(text, share=(nn.Embedding,))(torch.randint(100, (6, 5))).shape
    torch.Size([4, 6, 3])
    """

    def __init__(
        self,
        module: nn.Module,
        members: int = 4,
        *,
        init_std: float = 0.5,
        sign_probability: float | None = None,
        member_norm: bool = False,
        share: Sequence[Share] = (),
        output: Output = None,
        example: Example | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if members < 1:
            raise InputError(f"members must be at least 1, got {members}")
        if init_std < 0:
            raise InputError(f"init_std must not be negative, got {init_std}")
        if sign_probability is not None and not 0 <= sign_probability <= 1:
            raise InputError(f"sign_probability must lie in [0, 1], got {sign_probability}")
        common = common_parts(module, check_share(share))
        self.members = members
        self.output = output
        self.kind = type(module).__name__
        self.plain_parameters = sum(p.numel() for p in module.parameters())

        def draw(size: int, like: Tensor) -> Tensor:
            values = torch.empty(members, size, device=None if generator is None else generator.device)
            if sign_probability is None:
                values.normal_(1, init_std, generator=generator)
            else:
                values.bernoulli_(sign_probability, generator=generator).mul_(2).sub_(1)
            return values.to(like)

        network = copy.deepcopy(module)
        kept = {new for old, new in zip(module.modules(), network.modules(), strict=True) if old in common}

        def convert(part: nn.Module) -> nn.Module | None:
            if part in kept:
                return part
            if is_layer(part):
                inputs, outputs = channels(part)  # type: ignore[arg-type]
                r, s = draw(outputs, part.weight), draw(inputs, part.weight)  # type: ignore[arg-type]
                return RankOne(copy.deepcopy(part), r, s)  # type: ignore[arg-type]
            if isinstance(part, OWN_COPY) or (member_norm and isinstance(part, ROW_STATISTICS)):
                return MemberNorm([copy.deepcopy(part) for _ in range(members)])
            disable_fused_path(part)
            return None

        self.network = swap_modules(network, convert)
        self.training = module.training
        if example is not None:
            inputs = example_inputs(example)
            check_conversion(self, module, inputs)
            warn_if_far(self, module, inputs)

    def forward(self, x: Any = None, *more: Any, per_member: bool = False, **named: Any) -> Tensor:
        refuse_data_parallel(self)
        inputs = member_inputs(positional(x, more), named, self.members, per_member=per_member)
        if torch.compiler.is_compiling() or torch.is_grad_enabled():  # no branch on a size in a traced graph
            return self._folded(inputs)
        if inputs.first.shape[1] < UNROLL_ROWS or not may_unroll(self.network):
            return self._folded(inputs)
        return self._unrolled(inputs)

    def _folded(self, inputs: Inputs) -> Tensor:
        folded = inputs.fold()
        logits = take_logits(folded.call(self.network), self.output, folded.first.shape[0], self.kind)
        return logits.reshape(*inputs.first.shape[:2], *logits.shape[1:])

    def _unrolled(self, inputs: Inputs) -> Tensor:
        rows = inputs.first.shape[1]
        each = zip(unroll(self.network, self.members), each_member(inputs), strict=True)
        return torch.stack([take_logits(own.call(net), self.output, rows, self.kind) for net, own in each])

    def member(self, k: int) -> nn.Module:
        """Member k alone: a module of the original's class, a copy."""
        require_member(k, self.members)

        def take(part: nn.Module) -> nn.Module | None:
            return part.member(k) if isinstance(part, (RankOne, MemberNorm)) else None

        return swap_modules(copy.deepcopy(self.network), take)

    def describe(self) -> str:
        """How many parameters the network has, and how many the members add."""
        added = sum(p.numel() for p in self.parameters()) - self.plain_parameters
        return (
            f"BatchEnsemble of {self.members} x {self.kind}: {self.plain_parameters:,} parameters "
            f"and {added:,} more for the members ({added / max(self.plain_parameters, 1):.2%})"
        )


def disable_fused_path(part: nn.Module) -> None:
    """Switch off the fused evaluation of torch's transformers, which reads weights around their layers."""
    if isinstance(part, nn.TransformerEncoderLayer):
        part.activation_relu_or_gelu = 0
    elif isinstance(part, nn.TransformerEncoder):
        part.use_nested_tensor = False


def may_unroll(network: nn.Module) -> bool:
    """Whether running members one after the other gives the same result as folding them."""
    return not any(
        part.training
        or has_hooks(part)  # a hook sees the rows of all members together
        or not is_self_contained(part)
        or (isinstance(part, ROW_STATISTICS) and part.running_mean is None)
        for part in network.modules()
    )


def unroll(network: nn.Module, members: int) -> Iterator[nn.Module]:
    """The plain network of each member in turn, with the current values of the ensemble."""
    parts = {part: part.unroll() for part in network.modules() if isinstance(part, (RankOne, MemberNorm))}
    for _ in range(members):
        yield with_replaced(network, {part: next(plain) for part, plain in parts.items()})
