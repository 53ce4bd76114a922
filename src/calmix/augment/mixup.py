"""Mixers that mix all classes, or those of a policy of the user's own: Mixup, CutMix, RegMixup, MixupMP."""

from calmix.augment.mixer import Mixer
from calmix.augment.mixing import Mixing, Partner
from calmix.augment.policy import FixedClasses, Policy


class Mixup(Mixer):
    """Train on lam x_i + (1 - lam) x_j with labels alike, lam ~ Beta(alpha, alpha) (Zhang et al., 2018).

    `members=1` draws once for all members; more draw for each of its own. `where` restricts the mixing: a
    function (y, group, index) -> bool for each example, or a policy that learns (`calmix.augment.policy`).
    The published scripts of the paper reverse the batch and fold lam to max(lam, 1 - lam):
    `partner="reversed", fold=True`.

    >>> import torch
    >>> batch = Mixup(num_classes=10)(torch.rand(8, 3, 32, 32), torch.arange(8))
    >>> batch.inputs.shape, batch.targets.shape, batch.weights.shape
    (torch.Size([1, 8, 3, 32, 32]), torch.Size([1, 8, 10]), torch.Size([1, 8]))
    >>> mixer = Mixup(num_classes=3, where=lambda y, group, index: y == 2)  # only class 2
    >>> mixer(torch.rand(3, 5), torch.tensor([0, 1, 2])).targets[0, :2]
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """

    def __init__(
        self,
        num_classes: int,
        *,
        alpha: float = 1.0,
        members: int = 1,
        where: Policy | None = None,
        partner: Partner = "permutation",
        fold: bool = False,
    ) -> None:
        super().__init__(Mixing(num_classes, alpha, members, "mixup", partner, fold), where)


class CutMix(Mixer):
    """Replace a box of x_i by that of x_j; labels mix by area (Yun et al., 2019).

    x is (B, channels, height, width), or (B, channels, length) for a piece of a sequence. The box is to cover
    1 - lam of it, lam ~ Beta(alpha, alpha); the labels are mixed by the box as clipped at the border.

    >>> import torch
    >>> CutMix(num_classes=3)(torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 2, 0])).targets.sum(-1)
    tensor([[1., 1., 1., 1.]])
    """

    def __init__(
        self,
        num_classes: int,
        *,
        alpha: float = 1.0,
        members: int = 1,
        where: Policy | None = None,
        partner: Partner = "permutation",
        fold: bool = False,
    ) -> None:
        super().__init__(Mixing(num_classes, alpha, members, "cutmix", partner, fold), where)


class RegMixup(Mixer):
    """Train on clean and mixed rows together: CE(clean) + weight CE(mixed) (Pinto et al., 2022).

    B images give 2B rows, the clean ones first. Beta(20, 20) is meant for CIFAR-10, Beta(10, 10) for
    CIFAR-100.

    >>> import torch
    >>> RegMixup(num_classes=3)(torch.rand(2, 5), torch.tensor([0, 1])).targets[0, :2]
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """

    def __init__(
        self,
        num_classes: int,
        *,
        alpha: float = 20.0,
        members: int = 1,
        where: Policy | None = None,
        weight: float = 1.0,
        partner: Partner = "permutation",
        fold: bool = False,
    ) -> None:
        mixing = Mixing(
            num_classes, alpha, members, "mixup", partner, fold, clean_too=True, mixed_weight=weight
        )
        super().__init__(mixing, where)


class MixupMP(Mixer):
    """Give each member a data set of its own: the clean rows and its own mixed ones (Wu & Williamson, 2024).

    The loss is that of `RegMixup`, CE(clean) + weight CE(mixed); `members` is the ensemble's, so that members
    differ by their draws.

    >>> import torch
    >>> MixupMP(num_classes=3, members=4)(torch.rand(2, 5), torch.tensor([0, 1])).inputs.shape
    torch.Size([4, 4, 5])
    """

    def __init__(
        self,
        num_classes: int,
        *,
        alpha: float = 1.0,
        members: int = 1,
        where: Policy | None = None,
        weight: float = 1.0,
        partner: Partner = "permutation",
        fold: bool = False,
    ) -> None:
        mixing = Mixing(
            num_classes, alpha, members, "mixup", partner, fold, clean_too=True, mixed_weight=weight
        )
        super().__init__(mixing, where)


class NoMixing(Mixer):
    """Mix nothing, in the form that every mixer gives, so that training without mixing is no special case.

    >>> import torch
    >>> NoMixing(num_classes=3)(torch.rand(2, 5), torch.tensor([0, 2])).targets
    tensor([[[1., 0., 0.],
             [0., 0., 1.]]])
    """

    def __init__(self, num_classes: int) -> None:
        mixing = Mixing(num_classes, alpha=1.0, members=1, partner="reversed")
        super().__init__(mixing, FixedClasses(1, num_classes, mixed=False))
