"""How two images become one: the partner, lam, the pixels, the labels."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calmix.augment.batch import Batch
from calmix.augment.draws import beta, check_alpha, permutations, uniform
from calmix.augment.labels import check_range, check_tensor, one_hot
from calmix.errors import InputError

Partner = Literal["permutation", "reversed"]


@dataclass(frozen=True)
class Mixing:
    """How the rows of a batch are paired and mixed, whatever the policy that selects them.

    A partner comes from the batch, by a random permutation or by reversing it; the weight of an example's own
    image is lam ~ Beta(alpha, alpha), for every example and member, and `fold` takes max(lam, 1 - lam), so
    that its own image dominates. `clean_too` puts the clean rows before the mixed ones, which then have the
    weight `mixed_weight`.
    """

    num_classes: int
    alpha: float
    members: int
    mix: Literal["mixup", "cutmix"] = "mixup"
    partner: Partner = "permutation"
    fold: bool = False
    clean_too: bool = False
    mixed_weight: float = 1.0

    def __post_init__(self) -> None:
        check_alpha(self.alpha, "use no mixer to mix nothing")
        if self.num_classes < 1:
            raise InputError(f"num_classes = {self.num_classes}; give the number of classes")
        if self.members < 1:
            raise InputError(f"members = {self.members}; give at least 1, which draws once for all members")
        if self.mix not in ("mixup", "cutmix"):
            raise InputError(f"mix = {self.mix!r}; give 'mixup' or 'cutmix'")
        if self.partner not in ("permutation", "reversed"):
            raise InputError(f"partner = {self.partner!r}; give 'permutation' or 'reversed'")
        if not self.mixed_weight > 0:
            raise InputError(f"weight = {self.mixed_weight}; give a positive weight of the mixed rows")

    def draw(
        self,
        y: Tensor,
        *,
        per_member: bool,
        ignore_index: int | None = None,
        generator: torch.Generator | None,
    ) -> "Plan":
        """Partners and lam for labels y (B,) or (B, H, W), or with `per_member` (M, B) or (M, B, H, W).

        Labels with one axis more than (B,) are refused: they may be (M, B) with per_member forgotten.
        """
        check_tensor(y, "y")
        if y.ndim - per_member < 1 or y.ndim - per_member == 2 or y.numel() == 0:
            raise InputError(
                f"y has shape {tuple(y.shape)}; give labels (B,) with x (B, ...), or, with per_member=True, "
                "labels (M, B) with x (M, B, ...); labels of pixels are (B, H, W)"
            )
        if per_member and len(y) != self.members and 1 not in (len(y), self.members):
            raise InputError(f"y has shape {tuple(y.shape)}, but this mixer has members = {self.members}")
        labelled = y if ignore_index is None else y.masked_fill(y == ignore_index, 0)
        check_range(labelled, self.num_classes, "y", "num_classes")
        shape = (self.members, y.shape[int(per_member)])
        if self.partner == "permutation":
            partner = permutations(*shape, generator=generator)
        else:
            partner = torch.arange(shape[1]).flip(0).expand(shape)
        lam = beta(self.alpha, *shape, generator=generator)
        centre = uniform(*shape, 2, generator=generator) if self.mix == "cutmix" else None
        lam = torch.maximum(lam, 1 - lam) if self.fold else lam
        centre = None if centre is None else centre.to(y.device)
        return Plan(self, y.long(), partner.to(y.device), lam.to(y.device), centre, per_member, ignore_index)


@dataclass(frozen=True, eq=False)
class Plan:
    """The draws for one batch; `plan(x)` mixes a tensor by them: each view of the images, or embeddings.

    partner (members, B) are positions in the batch, lam (members, B) the weights of the examples' own
    images. An example that is not mixed is its own partner: its row comes out bit for bit, its target
    one-hot. Labels of pixels (B, H, W) make targets (members, B, C, H, W), mixed or cut as the image is;
    those that are `ignore_index` have no target, 0 for every class.
    """

    mixing: Mixing
    y: Tensor
    partner: Tensor
    lam: Tensor
    centre: Tensor | None
    per_member: bool = False
    ignore_index: int | None = None

    @property
    def pixels(self) -> bool:
        """Whether labels are those of pixels."""
        return self.y.ndim > 1 + self.per_member

    @property
    def examples(self) -> Tensor:
        """A label for each example, (B,) or (M, B): where pixels have labels, only its shape is right."""
        return self.y.flatten(1 + self.per_member)[..., 0] if self.pixels else self.y

    def mismatch(self, mask: object) -> str | None:
        """What is wrong with a mask of the examples to mix; None where it fits."""
        examples, members = self.examples.shape[-1], max(len(self.partner), self.examples.shape[:-1].numel())
        expected = f"give a bool tensor, one for each example: ({examples},) or ({members}, {examples})"
        if not isinstance(mask, Tensor):
            return f"a {type(mask).__name__}; {expected}"
        rows = mask.shape[:-1].numel()
        fits = mask.ndim in (1, 2) and mask.shape[-1] == examples and len({1, members, rows}) < 3
        if mask.dtype != torch.bool or not fits:
            return f"{mask.dtype} of shape {tuple(mask.shape)}; {expected}"
        return None

    def where(self, mask: Tensor) -> "Plan":
        """The plan that mixes only where `mask`, bool (B,) or (members, B), is true."""
        reason = self.mismatch(mask)
        if reason:
            raise InputError(f"mask is {reason}")
        y = self.examples
        partner = self.partner.where(mask.to(y.device), _positions(y))
        return dataclasses.replace(self, partner=partner)

    def __call__(self, x: Tensor) -> Batch:
        """Mix x, (B, ...) or (M, B, ...) as the labels were; x itself stays as it is."""
        check_tensor(x, "x")
        labels = self.examples
        if x.shape[: labels.ndim] != labels.shape:
            expected = ", ".join(map(str, labels.shape))
            raise InputError(
                f"x has shape {tuple(x.shape)}, the labels {tuple(self.y.shape)}; give x ({expected}, ...), "
                "or, with per_member=True, x (M, B, ...) and labels (M, B)"
            )
        if not x.is_floating_point():
            raise InputError(f"x is {x.dtype}; give floats, e.g. x / 255, or of tokens their embeddings")
        own, y = (x, self.y) if self.per_member else (x.unsqueeze(0), self.y.unsqueeze(0))
        shape = (max(len(own), len(self.partner)), own.shape[1])
        partner, lam = self.partner.expand(shape), self.lam.expand(shape)
        other = _partners(own, partner)
        box = None
        if self.centre is None:
            mixed = _mixup(own, other, lam.where(partner != _positions(labels), -0.0))
        else:
            mixed, lam, box = _cutmix(own, other, lam, self.centre)
        if self.pixels:
            clean, targets = self._pixel_targets(y, partner, lam, box)
        else:
            clean, targets = None, self._targets(y.expand(shape), partner, lam)
        weights = torch.ones(shape, device=x.device)
        if not self.mixing.clean_too:
            return Batch(mixed, targets, weights, images=shape[1])
        if clean is None:
            clean = one_hot(y.expand(shape), self.mixing.num_classes)
        inputs = torch.cat([own.expand_as(mixed), mixed], dim=1)
        targets = torch.cat([clean.expand_as(targets), targets], dim=1)
        weights = torch.cat([weights, self.mixing.mixed_weight * weights], dim=1)
        return Batch(inputs, targets, weights, images=shape[1])

    def _targets(self, y: Tensor, partner: Tensor, lam: Tensor) -> Tensor:
        """Targets (members, B, C) of labels (members, B)."""
        targets = torch.zeros(*y.shape, self.mixing.num_classes, device=y.device)
        targets.scatter_(2, y.unsqueeze(2), lam.unsqueeze(2))
        targets.scatter_add_(2, y.gather(1, partner).unsqueeze(2), (1 - lam).unsqueeze(2))
        return targets

    def _pixel_targets(
        self, y: Tensor, partner: Tensor, lam: Tensor, box: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Targets of labels (M or 1, B, ...): those of the images themselves, and the mixed ones."""
        ignored = (
            torch.zeros_like(y, dtype=torch.bool) if self.ignore_index is None else y == self.ignore_index
        )
        own = one_hot(y.masked_fill(ignored, 0), self.mixing.num_classes).movedim(-1, 2)
        own = own.masked_fill(ignored.unsqueeze(2), 0.0)
        other = _partners(own, partner)
        if box is None:
            return own, other.lerp_(own, lam.view(*lam.shape, *[1] * (own.ndim - 2)))
        size = tuple(box.shape[-(y.ndim - 2) :])
        if size != y.shape[2:]:
            raise InputError(
                f"labels have {tuple(y.shape[2:])} pixels and x {size}: CutMix cuts the same box out of "
                "both, so give labels of the size of x"
            )
        return own, torch.where(box.view(*lam.shape, 1, *y.shape[2:]), other, own)


def _partners(own: Tensor, partner: Tensor) -> Tensor:
    """The rows of `own` (M or 1, B, ...) at `partner` (members, B), as a new tensor."""
    first = torch.arange(len(own), device=own.device).unsqueeze(1) * own.shape[1]
    rows = own.flatten(0, 1).index_select(0, (first + partner).flatten())
    return rows.view(*partner.shape, *own.shape[2:])


def _positions(y: Tensor) -> Tensor:
    return torch.arange(y.shape[-1], device=y.device)


def _mixup(own: Tensor, other: Tensor, lam: Tensor) -> Tensor:
    """lam * own + (1 - lam) * other, written over `other`.

    lam = -0.0 leaves `other` bit for bit where it equals `own`: x + -0.0 (x - x) is x, for x = -0.0 too.
    """
    return other.lerp_(own, lam.view(*lam.shape, *[1] * (own.ndim - 2)).to(own.dtype))


def _cutmix(own: Tensor, other: Tensor, lam: Tensor, centre: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`own` (members, B, C, ...) with a box of `other` (Yun et al., 2019), the area that stayed, the box.

    The box covers 1 - lam of the last two spatial axes, or of the only one, about a uniform centre; what
    reaches beyond the border is clipped.
    """
    sizes = own.shape[3:][-2:]
    if not sizes:
        raise InputError(
            f"CutMix cuts along spatial axes, and x has rows of shape {tuple(own.shape[2:])}; give x "
            "(..., channels, length) or (..., channels, height, width)"
        )
    side = (1 - lam).sqrt() if len(sizes) == 2 else 1 - lam
    box, area = torch.ones_like(lam, dtype=torch.bool), torch.ones_like(lam)
    for axis, size in enumerate(sizes):
        middle, half = (centre[..., axis] * size).floor(), (side * size / 2).floor()
        start, stop = (middle - half).clamp(min=0), (middle + half).clamp(max=size)
        place = torch.arange(size, device=own.device)
        inside = (place >= start.unsqueeze(2)) & (place < stop.unsqueeze(2))
        box = box.unsqueeze(-1) & inside.view(*lam.shape, *[1] * axis, size)
        area = area * (stop - start)
    box = box.view(*lam.shape, *[1] * (own.ndim - 2 - len(sizes)), *sizes)
    return torch.where(box, other, own), 1 - area / sizes.numel(), box
