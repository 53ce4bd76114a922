"""Mixing inside a network: on embeddings, where inputs are token ids that cannot be mixed themselves.

Protocol, in one place. A network whose inputs are tokens (N, L) is mixed after its embeddings in one of two
ways:

1. It offers `embed(x) -> e` (B, ...) of floats and `forward_embedded(e) -> logits` (B, C), and
   `forward(x)` is `forward_embedded(embed(x))`. Where it also offers `mask(x)` (B, L), true or 1 for what is
   there and false or 0 for padding, it is called as `forward_embedded(e, mask)`, and the mask of a mixed
   example is the maximum of both: what either has, counts.
2. The recipe's `mix_after` names a module, as `named_modules` does, whose output (B, ...) is mixed. Masks are
   then the network's own matter.

The same draws mix embeddings, labels and masks. In evaluation nothing is mixed. Any float input may be mixed
this way too (manifold Mixup); without either way inputs themselves are mixed.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from calmix import augment
from calmix.augment import Plan
from calmix.errors import InputError


class Embedded(nn.Module):
    """A network that offers `embed` and `forward_embedded`, called as a plain one; mixed in between."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.point = MixPoint()

    def forward(self, x: Tensor) -> Tensor:
        network: Any = self.network
        embedded = self.point(network.embed(x))
        if hasattr(network, "mask"):
            out: Tensor = network.forward_embedded(embedded, self.point.combine(network.mask(x)))
        else:
            out = network.forward_embedded(embedded)
        return out


def offers_embeddings(network: nn.Module) -> bool:
    return callable(getattr(network, "embed", None)) and callable(getattr(network, "forward_embedded", None))


class MixPoint:
    """Where a network mixes what passes: nothing, or within `mixing` by the plans of a batch's shards."""

    def __init__(self) -> None:
        self.plans: Sequence[Plan] = ()

    def __call__(self, rows: Tensor) -> Tensor:
        """Rows (M * B', ...), folded member-major, mixed by the plans, whose rows lie side by side."""
        if not self.plans:
            return rows
        if not isinstance(rows, Tensor) or not rows.is_floating_point():
            kind = rows.dtype if isinstance(rows, Tensor) else type(rows).__name__
            raise InputError(f"what is mixed inside the network must be one float tensor, got {kind}")
        return self._each(rows, lambda plan, part: _mixed_rows(plan, part))

    def combine(self, mask: Tensor) -> Tensor:
        """The masks of mixed examples: the maximum of both."""
        return self._each(mask, _mixed_masks) if self.plans else mask

    def _each(self, rows: Tensor, mix: Any) -> Tensor:
        members = self.plans[0].y.shape[0]
        by_member = rows.unflatten(0, (members, -1))
        sizes = [rows_of(plan) for plan in self.plans]
        parts = by_member.split(sizes, dim=1)
        mixed = []
        for plan, part in zip(self.plans, parts, strict=True):
            images = plan.y.shape[-1]
            clean = part[:, : part.shape[1] - images]  # empty unless clean rows come before the mixed ones
            mixed.append(torch.cat([clean, mix(plan, part[:, -images:])], dim=1))
        return torch.cat(mixed, dim=1).flatten(0, 1)


def rows_of(plan: Plan) -> int:
    """Rows that a plan makes of its images."""
    return int(plan.y.shape[-1]) * (1 + plan.mixing.clean_too)


def batch_of(plan: Plan, inputs: Tensor) -> augment.Batch:
    """The batch whose inputs (M or 1, B, ...) are still to be mixed inside the network; labels are mixed."""
    batch = plan(torch.zeros(*plan.y.shape, 1, device=inputs.device))
    inputs = inputs.expand(len(plan.y), *inputs.shape[1:])
    if plan.mixing.clean_too:
        inputs = torch.cat([inputs, inputs], dim=1)
    return dataclasses.replace(batch, inputs=inputs)


@contextlib.contextmanager
def mixing(points: Sequence[MixPoint], plans: Sequence[Plan]) -> Iterator[None]:
    """Mix at `points` while the block runs."""
    for point in points:
        point.plans = plans
    try:
        yield
    finally:
        for point in points:
            point.plans = ()


def mix_points(model: nn.Module, mix_after: str) -> list[MixPoint]:
    """The points of an ensemble at which it mixes inside; none where inputs themselves are mixed."""
    if not mix_after:
        return [part.point for part in model.modules() if isinstance(part, Embedded)]
    points = []
    for network in getattr(model, "networks", None) or [model.network]:
        part = find_module(network, mix_after)
        point = MixPoint()
        part.register_forward_hook(lambda _part, _inputs, out, point=point: point(out))
        points.append(point)
    return points


def find_module(network: Any, name: str) -> nn.Module:
    """The module of that name in a network, or in the one that calmix wrapped."""
    names: dict[str, nn.Module] = dict(network.named_modules())
    if name not in names and f"network.{name}" in names:
        name = f"network.{name}"
    if name not in names or not name:
        valid = ", ".join(key.removeprefix("network.") for key in names if key)
        raise InputError(f"mix_after {name!r} is no module of the network; there are {valid}")
    return names[name]


def _mixed_rows(plan: Plan, rows: Tensor) -> Tensor:
    if plan.centre is not None:
        raise InputError("CutMix cuts pixels: inside a network use mixup or camixup")
    alone = dataclasses.replace(plan, mixing=dataclasses.replace(plan.mixing, clean_too=False))
    return alone(rows).inputs


def _mixed_masks(plan: Plan, mask: Tensor) -> Tensor:
    """(M, B, ...): each row and its partner's."""
    partner = plan.partner.expand(mask.shape[:2])
    member = torch.arange(len(mask), device=mask.device).unsqueeze(1)
    other = mask[member, partner]
    return mask | other if mask.dtype == torch.bool else torch.maximum(mask, other)
