"""BatchEnsemble (Wen et al., 2020): members that share their kernels and differ by a rank-one factor each."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from calmix.ensembles.layers import LAYERS, RankOne
from calmix.ensembles.members import require_member, require_rows, rows_of_members
from calmix.ensembles.norm import BATCH_NORMS, MemberNorm, SynchronisedNorm
from calmix.ensembles.swap import has_hooks, is_self_contained, swap_modules, with_replaced
from calmix.errors import InputError

ROW_STATISTICS = (*BATCH_NORMS, SynchronisedNorm, nn.SyncBatchNorm)
NORMS = (
    *ROW_STATISTICS,
    *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
    *(nn.GroupNorm, nn.LayerNorm, nn.RMSNorm),
)


class BatchEnsemble(nn.Module):
    """`members` networks in one, from any batch-first module of linear, convolutional and norm layers.

    x (B, ...), or with `per_member` (M or 1, B, ...), -> (M, B, ...), in training as in evaluation. Each
    linear layer and convolution keeps its weights W, and member k uses W o (r_k s_k^T): r scales its
    outputs, s its inputs, drawn from N(1, init_std), or +1 with `sign_probability` and -1 otherwise. A bias
    becomes one a member. Norms stay shared, so that a batch norm sees the rows of all members, unless
    `member_norm` gives every batch norm one copy a member.

    `module` itself is left as it is. Parts with parameters of any other kind, tied or parametrised weights
    and layers with hooks are refused by name. Inside, rows are folded member-major into the batch, (M * B,
    ...), so what the module does between its layers must treat rows alike and keep them first; `example`, an
    input (B, ...), has that checked. In evaluation without gradients, from 32 rows up, members pass one after
    the other where that gives the same, through shallow copies of the module: attributes that it sets on
    itself meanwhile are lost.

    >>> model = BatchEnsemble(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)), members=4)
    >>> model(torch.rand(5, 2)).shape, model(torch.rand(4, 5, 2), per_member=True).shape
    (torch.Size([4, 5, 3]), torch.Size([4, 5, 3]))
    >>> print(model.describe())
    BatchEnsemble of 4 x Sequential: 51 parameters and 117 more for the members (229.41%)
    """

    def __init__(
        self,
        module: nn.Module,
        members: int = 4,
        *,
        init_std: float = 0.5,
        sign_probability: float | None = None,
        member_norm: bool = False,
        example: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if members < 1:
            raise InputError(f"members must be at least 1, got {members}")
        if init_std < 0:
            raise InputError(f"init_std must not be negative, got {init_std}")
        if sign_probability is not None and not 0 <= sign_probability <= 1:
            raise InputError(f"sign_probability must lie in [0, 1], got {sign_probability}")
        refuse_inconvertible(module)
        self.members = members
        self.kind = type(module).__name__
        self.plain_parameters = sum(p.numel() for p in module.parameters())

        def draw(size: int, like: Tensor) -> Tensor:
            values = torch.empty(members, size, device=None if generator is None else generator.device)
            if sign_probability is None:
                values.normal_(1, init_std, generator=generator)
            else:
                values.bernoulli_(sign_probability, generator=generator).mul_(2).sub_(1)
            return values.to(like)

        def convert(part: nn.Module) -> nn.Module | None:
            if isinstance(part, LAYERS):
                inputs, outputs = (
                    (part.in_features, part.out_features)
                    if isinstance(part, nn.Linear)
                    else (part.in_channels, part.out_channels)
                )
                return RankOne(copy.deepcopy(part), draw(outputs, part.weight), draw(inputs, part.weight))
            if member_norm and isinstance(part, ROW_STATISTICS):
                return MemberNorm([copy.deepcopy(part) for _ in range(members)])
            return None

        self.network = swap_modules(copy.deepcopy(module), convert)
        self.training = module.training
        if example is not None:
            self._compare(module, example)

    def forward(self, x: Tensor, *, per_member: bool = False) -> Tensor:
        rows = rows_of_members(x, self.members, per_member=per_member)
        if torch.compiler.is_compiling() or rows.shape[1] < 32 or torch.is_grad_enabled():
            return self._folded(rows)
        return self._unrolled(rows) if may_unroll(self.network) else self._folded(rows)

    def _folded(self, rows: Tensor) -> Tensor:
        if torch.compiler.is_exporting():  # flatten and reshape would restrict the number of rows
            out = self.network(torch.cat(rows.unbind()))
            return torch.stack([out.narrow(0, k * rows.shape[1], rows.shape[1]) for k in range(self.members)])
        folded = rows.flatten(0, 1)
        out = require_rows(self.kind, self.network(folded), folded)
        return out.reshape(*rows.shape[:2], *out.shape[1:])

    def _unrolled(self, rows: Tensor) -> Tensor:
        each = zip(unroll(self.network, self.members), rows_to_change(rows), strict=True)
        return torch.stack([require_rows(self.kind, network(own), own) for network, own in each])

    def member(self, k: int) -> nn.Module:
        """Member k alone, as a module like the original one, on copies of its values."""
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

    @torch.no_grad()
    def _compare(self, module: nn.Module, example: Tensor) -> None:
        """Folded together, members must be what they are alone, and with r = s = 1 the original.

        Each sees another row of the example, repeated, so that rows which reach over to others show. And no
        layer of the original may be called from within: a function that holds on to it cannot be converted.
        """
        if example.ndim == 0 or not len(example):
            raise InputError("example has no rows: give an input (B, ...) with at least one")
        trial, original = copy.deepcopy(self).eval(), copy.deepcopy(module).eval()
        rows = torch.stack([example[k % len(example)].expand_as(example) for k in range(self.members)])
        with refused_calls(module):
            for k, got in enumerate(trial._folded(rows.clone())):
                self._demand(got, trial.member(k)(rows[k].clone()), f"member {k} differs from itself alone")
        for part in trial.modules():
            if isinstance(part, RankOne):
                part.r.fill_(1)
                part.s.fill_(1)
        for k, got in enumerate(trial._folded(rows.clone())):
            want = original(rows[k].clone())
            self._demand(got, want, f"member {k} with r = s = 1 differs from the original")

    def _demand(self, got: Tensor, want: Tensor, complaint: str) -> None:
        close = 3 * torch.finfo(want.dtype).eps ** 0.5
        if not torch.allclose(got, want, rtol=close, atol=close / 10 * float(want.abs().max())):
            raise InputError(
                f"{self.kind} cannot be converted: on the example, {complaint} by up to "
                f"{float((got - want).abs().max()):.3g}. Does it mix rows, or move them from the first axis?"
            )


def may_unroll(network: nn.Module) -> bool:
    """Whether members one by one are the same as folded: from 32 rows up that is faster in evaluation."""
    return not any(
        part.training
        or has_hooks(part)  # which see the rows of all members together, however many there are
        or not is_self_contained(part)
        or (isinstance(part, ROW_STATISTICS) and part.running_mean is None)
        for part in network.modules()
    )


def unroll(network: nn.Module, members: int) -> Iterator[nn.Module]:
    """The plain network of each member in turn, on the current values of the ensemble."""
    parts = {part: part.unroll() for part in network.modules() if isinstance(part, (RankOne, MemberNorm))}
    for _ in range(members):
        yield with_replaced(network, {part: next(plain) for part, plain in parts.items()})


def rows_to_change(rows: Tensor) -> Iterator[Tensor]:
    """The rows of each member, who may change them in place: the next must not see it, nor the caller.

    The first has a copy, and where that was changed all others have, because they do the same.
    """
    first = rows[0].clone()
    before = None if first.is_inference() else first._version  # which inference tensors do not count
    yield first
    changed = before is None or first._version != before
    for own in rows[1:]:
        yield own.clone() if changed else own


@contextmanager
def refused_calls(module: nn.Module) -> Iterator[None]:
    """Raise InputError, with its name, for any layer of `module` that is called meanwhile."""

    def refuse(name: str) -> None:
        raise InputError(
            f"{name} of the original is called by its converted copy, so something other than a module holds "
            "on to it (a lambda, say): make that a method"
        )

    layers = [(name, part) for name, part in module.named_modules() if isinstance(part, LAYERS)]
    handles = [part.register_forward_pre_hook(lambda *_, name=name: refuse(name)) for name, part in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def refuse_inconvertible(module: nn.Module) -> None:
    """Raise InputError, with the name of the part, for what BatchEnsemble could not convert faithfully."""
    owner: dict[nn.Parameter, str] = {}
    for name, part in module.named_modules():
        where = f"{name or 'the module itself'} ({type(part).__name__})"
        convertible = type(part) in LAYERS
        for own, parameter in part.named_parameters(recurse=False):
            if type(part) not in (*LAYERS, *NORMS):
                raise InputError(
                    f"{where} owns the parameter {own!r}: only linear layers, convolutions and norms can be "
                    "shared by members; write it with those, or use a DeepEnsemble"
                )
            if parameter in owner:
                raise InputError(
                    f"{where} shares its {own} with {owner[parameter]}: untie them, or use a DeepEnsemble"
                )
            owner[parameter] = where
        if "forward" in vars(part):
            raise InputError(
                f"{where} has a forward that was set on it alone, which goes on to call the original's "
                "parts: make it a method of its class"
            )
        if convertible and (has_hooks(part) or not isinstance(part._parameters.get("weight"), nn.Parameter)):
            raise InputError(
                f"{where} has hooks or a parametrised weight, which would be lost: remove them first"
            )
