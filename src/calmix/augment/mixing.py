"""How two images become one: the partner, the shares, the pixels, the labels."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calmix.augment.draws import beta, permutations, uniform
from calmix.augment.labels import check_range, one_hot
from calmix.errors import InputError


@dataclass(frozen=True)
class Batch:
    """What is trained on: inputs (members, B', ...), targets (members, B', C) and weights (members, B').

    Of B images come B' = B rows, or 2B where clean and mixed rows are both used. One rule turns the rows'
    losses into a member's loss, whatever the mixer: the weighted sum over the rows, divided by the number of
    IMAGES,

        loss = (batch.weights * cross_entropy(logits, batch.targets)).sum(1) / y.shape[-1]     # (members,)
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Mixing:
    """How the rows of a batch are paired and mixed; the same for every policy of who is mixed.

    A partner comes from the batch, by a random permutation or by reversing it, or is oneself; the share of
    an example's own image is lam ~ Beta(alpha, alpha), for every example and member, and `fold` takes
    max(lam, 1 - lam), so that its own image dominates. `clean_too` puts the clean rows before the mixed
    ones, which then weigh `mixed_weight`.
    """

    num_classes: int
    alpha: float
    members: int
    mix: Literal["mixup", "cutmix"] = "mixup"
    partner: Literal["permutation", "reversed", "self"] = "permutation"
    fold: bool = False
    clean_too: bool = False
    mixed_weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.alpha < float("inf"):
            raise InputError(f"alpha = {self.alpha}; give a positive number, or use no mixer to mix nothing")
        if self.num_classes < 1:
            raise InputError(f"num_classes = {self.num_classes}; give the number of classes")
        if self.members < 1:
            raise InputError(f"members = {self.members}; give at least 1, which draws once for all members")
        if self.mix not in ("mixup", "cutmix"):
            raise InputError(f"mix = {self.mix!r}; give 'mixup' or 'cutmix'")
        if self.partner not in ("permutation", "reversed", "self"):
            raise InputError(f"partner = {self.partner!r}; give 'permutation', 'reversed' or 'self'")
        if not self.mixed_weight > 0:
            raise InputError(f"the mixed rows' weight is {self.mixed_weight}; give a positive number")

    def draw(self, y: Tensor, generator: torch.Generator | None) -> "Plan":
        """Partners and shares for labels y (B,), or (M, B) where each member has images of its own."""
        if y.ndim not in (1, 2) or y.numel() == 0:
            raise InputError(
                f"y has shape {tuple(y.shape)}; give labels (B,) with x (B, ...), or (M, B) with (M, B, ...)"
            )
        if y.ndim == 2 and len(y) != self.members and 1 not in (len(y), self.members):
            raise InputError(
                f"y has shape {tuple(y.shape)}, but this mixer was made for members = {self.members}"
            )
        check_range(y, self.num_classes, "y", "num_classes")
        shape = (self.members, y.shape[-1])
        if self.partner == "permutation":
            partner = permutations(*shape, generator=generator)
        else:
            places = torch.arange(shape[1])
            partner = (places.flip(0) if self.partner == "reversed" else places).expand(shape)
        share = beta(self.alpha, *shape, generator=generator)
        centre = uniform(*shape, 2, generator=generator) if self.mix == "cutmix" else None
        return Plan(
            mixing=self,
            y=y.long(),
            partner=partner.to(y.device),
            share=(torch.maximum(share, 1 - share) if self.fold else share).to(y.device),
            centre=None if centre is None else centre.to(y.device),
        )


@dataclass(frozen=True)
class Plan:
    """What was drawn for one batch; `plan(x)` carries it out, as often as there are views of the images.

    partner (members, B) holds positions in the batch, share (members, B) the weight of an example's own
    image. An example that is not mixed is its own partner: its row comes out bit for bit, its target one-hot.
    """

    mixing: Mixing
    y: Tensor
    partner: Tensor
    share: Tensor
    centre: Tensor | None

    def only(self, on: Tensor) -> "Plan":
        """Mix only where `on` (members, B) holds; everyone else is paired with himself."""
        return dataclasses.replace(self, partner=self.partner.where(on, _positions(self.y)))

    def __call__(self, x: Tensor) -> Batch:
        """Mix x, (B, ...) or (M, B, ...) as the labels were; x itself stays as it is."""
        if x.shape[: self.y.ndim] != self.y.shape:
            wanted = ", ".join(map(str, self.y.shape))
            raise InputError(
                f"x has shape {tuple(x.shape)}, the labels {tuple(self.y.shape)}; give x ({wanted}, ...)"
            )
        if not x.is_floating_point():
            raise InputError(f"x is {x.dtype}; give floats, e.g. x / 255")
        own, y = (x, self.y) if self.y.ndim == 2 else (x.unsqueeze(0), self.y.unsqueeze(0))
        shape = (max(len(own), self.mixing.members), own.shape[1])
        partner, share, y = self.partner.expand(shape), self.share.expand(shape), y.expand(shape)
        first = torch.arange(len(own), device=x.device).unsqueeze(1) * shape[1]
        other = own.flatten(0, 1).index_select(0, (first + partner).flatten()).view(*shape, *own.shape[2:])
        if self.centre is None:
            mixed = _mixup(own, other, share.where(partner != _positions(self.y), -0.0))
        else:
            mixed, share = _cutmix(own, other, share, self.centre)

        targets = torch.zeros(*shape, self.mixing.num_classes, device=x.device)
        targets.scatter_(2, y.unsqueeze(2), share.unsqueeze(2))
        targets.scatter_add_(2, y.gather(1, partner).unsqueeze(2), (1 - share).unsqueeze(2))
        weights = torch.ones(shape, device=x.device)
        if not self.mixing.clean_too:
            return Batch(mixed, targets, weights)
        return Batch(
            inputs=torch.cat([own.expand_as(mixed), mixed], dim=1),
            targets=torch.cat([one_hot(y, self.mixing.num_classes), targets], dim=1),
            weights=torch.cat([weights, self.mixing.mixed_weight * weights], dim=1),
        )


def _positions(y: Tensor) -> Tensor:
    return torch.arange(y.shape[-1], device=y.device)


def _mixup(own: Tensor, other: Tensor, share: Tensor) -> Tensor:
    """share * own + (1 - share) * other, written over `other`.

    A share of -0.0 leaves `other` bit for bit where it equals `own`: x + -0.0 (x - x) is x, for x = -0.0 too.
    """
    return other.lerp_(own, share.view(*share.shape, *[1] * (own.ndim - 2)).to(own.dtype))


def _cutmix(own: Tensor, other: Tensor, share: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    """`own` with a box of `other` (Yun et al., 2019), and the share of the area that stayed.

    The box has sqrt(1 - share) of each side and a uniform centre; what reaches beyond the border is clipped.
    """
    if own.ndim < 4:
        raise InputError(
            f"CutMix cuts boxes out of images; give x (..., height, width), not rows of {own.ndim - 2} axes"
        )
    height, width = own.shape[-2:]
    top, bottom = _interval(centre[..., 0], share, height)
    left, right = _interval(centre[..., 1], share, width)
    y, x = (torch.arange(size, device=own.device) for size in (height, width))
    rows = (y >= top.unsqueeze(2)) & (y < bottom.unsqueeze(2))
    columns = (x >= left.unsqueeze(2)) & (x < right.unsqueeze(2))
    box = rows.unsqueeze(3) & columns.unsqueeze(2)
    box = box.view(*box.shape[:2], *[1] * (own.ndim - 4), height, width)
    return torch.where(box, other, own), 1 - (bottom - top) * (right - left) / (height * width)


def _interval(centre: Tensor, share: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The first pixel inside and the first beyond, along one side of the image."""
    middle, half = (centre * size).floor(), ((1 - share).sqrt() * size / 2).floor()
    return (middle - half).clamp(min=0), (middle + half).clamp(max=size)
