"""The mixers that mix everyone: Mixup, CutMix, RegMixup, MixupMP. They differ in how, and not in who."""

from typing import Literal

import torch
from torch import Tensor, nn

from calmix.augment.mixing import Batch, Mixing, Plan

Partner = Literal["permutation", "reversed"]


class Everyone(nn.Module):
    """Mix every example; made by `Mixup`, `CutMix`, `RegMixup` and `MixupMP`.

    It takes what the mixers that choose need (group, index, observe, update) and makes nothing of it, so that
    a training loop is the same for all.
    """

    def __init__(self, mixing: Mixing) -> None:
        super().__init__()
        self.mixing = mixing

    @property
    def active(self) -> Tensor:
        """Who is mixed, (members, classes): everyone, or where nobody has a partner nobody."""
        mixed = self.mixing.partner != "self"
        return torch.full((self.mixing.members, self.mixing.num_classes), mixed)

    def plan(
        self,
        y: Tensor,
        *,
        group: Tensor | None = None,
        index: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Plan:
        """Draw partners and shares, for `plan(x)` to carry out on each view of the images."""
        return self.mixing.draw(y, generator)

    def forward(
        self,
        x: Tensor,
        y: Tensor,
        *,
        group: Tensor | None = None,
        index: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Batch:
        """Draw and mix: x (B, ...) with y (B,), or x (M, B, ...) with y (M, B)."""
        return self.plan(y, generator=generator)(x)

    def observe(self, train_logits: Tensor, y: Tensor, index: Tensor | None = None) -> None:
        """Nothing to learn from."""

    def update(
        self, val_logits: Tensor | None = None, val_labels: Tensor | None = None, group: Tensor | None = None
    ) -> None:
        """Nothing to change."""

    def extra_repr(self) -> str:
        return str(self.mixing)


def Mixup(
    num_classes: int,
    alpha: float = 1.0,
    members: int = 1,
    *,
    partner: Partner = "permutation",
    fold: bool = False,
) -> Everyone:
    """Train on lam x_i + (1 - lam) x_j with labels alike, lam ~ Beta(alpha, alpha) (Zhang et al., 2018).

    `members=1` draws once for all members; more draw for each of its own. The published scripts of the paper
    reverse the batch and fold lam to max(lam, 1 - lam): `partner="reversed", fold=True`.

    >>> batch = Mixup(num_classes=10)(torch.rand(8, 3, 32, 32), torch.arange(8))
    >>> batch.inputs.shape, batch.targets.shape, batch.weights.shape
    (torch.Size([1, 8, 3, 32, 32]), torch.Size([1, 8, 10]), torch.Size([1, 8]))
    """
    return Everyone(Mixing(num_classes, alpha, members, partner=partner, fold=fold))


def CutMix(
    num_classes: int,
    alpha: float = 1.0,
    members: int = 1,
    *,
    partner: Partner = "permutation",
    fold: bool = False,
) -> Everyone:
    """Replace a box of x_i by that of x_j; labels mix by area (Yun et al., 2019).

    The box is to cover 1 - lam of the image, lam ~ Beta(alpha, alpha); the labels' share is that of the box
    as clipped at the border.

    >>> CutMix(num_classes=3)(torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 2, 0])).targets.sum(-1)
    tensor([[1., 1., 1., 1.]])
    """
    return Everyone(Mixing(num_classes, alpha, members, mix="cutmix", partner=partner, fold=fold))


def RegMixup(
    num_classes: int,
    alpha: float = 20.0,
    members: int = 1,
    *,
    weight: float = 1.0,
    partner: Partner = "permutation",
    fold: bool = False,
) -> Everyone:
    """Train on clean and mixed rows together: CE(clean) + weight CE(mixed) (Pinto et al., 2022).

    Of B images come 2B rows, the clean ones first. Beta(20, 20) is meant for CIFAR-10, Beta(10, 10) for
    CIFAR-100.

    >>> RegMixup(num_classes=3)(torch.rand(2, 5), torch.tensor([0, 1])).targets[0, :2]
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    return Everyone(
        Mixing(num_classes, alpha, members, partner=partner, fold=fold, clean_too=True, mixed_weight=weight)
    )


def MixupMP(
    num_classes: int,
    alpha: float = 1.0,
    members: int = 4,
    *,
    weight: float = 1.0,
    partner: Partner = "permutation",
    fold: bool = False,
) -> Everyone:
    """Give each member a data set of its own: the clean rows and its own mixed ones (Wu & Williamson, 2024).

    The loss is that of `RegMixup`, CE(clean) + weight CE(mixed); members differ by their draws.

    >>> MixupMP(num_classes=3, members=4)(torch.rand(2, 5), torch.tensor([0, 1])).inputs.shape
    torch.Size([4, 4, 5])
    """
    return RegMixup(num_classes, alpha, members, weight=weight, partner=partner, fold=fold)


def Unmixed(num_classes: int) -> Everyone:
    """Mix nobody, in the form that every mixer gives, so that training without mixing is no special case.

    >>> Unmixed(num_classes=3)(torch.rand(2, 5), torch.tensor([0, 2])).targets
    tensor([[[1., 0., 0.],
             [0., 0., 1.]]])
    """
    return Everyone(Mixing(num_classes, 1.0, members=1, partner="self"))
