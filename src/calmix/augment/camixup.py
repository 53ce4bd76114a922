"""CAMixup: mix the groups of examples on which the network is over-confident."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calmix.augment.labels import check_range
from calmix.augment.mixer import Mixer
from calmix.augment.mixing import Mixing, Partner
from calmix.augment.policy import lookup, shared_zeros, sum_over_processes
from calmix.errors import InputError

# What float32 logits cannot tell from equal is equal; relative to the errors, so that none allows none.
_TIE = 1e-6


class CAMixup(Mixer):
    """Class i is mixed while Acc(C_i) <= Conf(C_i) on validation data (Wen et al., 2021).

    `active` (members, groups) starts all false; `update` decides anew after every epoch. An example's own
    group counts, not its partner's; its own image dominates (lam is folded); a group without validation
    examples is not mixed. Groups are the classes, or with `num_groups` those of `group`: age bands, coarse
    labels.

    `gap_of="member"` compares each member's own predictions, as in the paper; `gap_of="pool"` the mean of any
    number of members' probabilities, for all: the pool is what will be used, and is less confident than its
    members. None is "pool" for one member (MC-dropout, validated on all its samples) and "member" for more.

    With a `margin`, a group is mixed only if its confidence exceeds its accuracy by more than that. With
    `momentum`, the sums of an epoch enter as new = momentum * past + (1 - momentum) * now, the first as they
    are. Both damp the paper's rule, which can oscillate (`examples/oscillation.py`).

    >>> mixer = CAMixup(num_classes=2)
    >>> mixer.update(torch.tensor([[[9.0, 0.0], [9.0, 0.0]]]), torch.tensor([0, 1]))
    >>> mixer.active  # always right on class 0, wrong and sure on class 1
    tensor([[False,  True]])
    """

    def __init__(
        self,
        num_classes: int,
        *,
        alpha: float = 1.0,
        members: int = 1,
        gap_of: Literal["member", "pool"] | None = None,
        margin: float = 0.0,
        momentum: float = 0.0,
        num_groups: int | None = None,
        mix: Literal["mixup", "cutmix"] = "mixup",
        partner: Partner = "permutation",
    ) -> None:
        mixing = Mixing(num_classes, alpha, members, mix=mix, partner=partner, fold=True)
        if gap_of is None:
            gap_of = "pool" if members == 1 else "member"
        policy = OverConfidentGroups(members, num_classes, num_groups, gap_of, margin, momentum)
        super().__init__(mixing, policy)


@dataclass(eq=False)
class OverConfidentGroups:
    """The policy of `CAMixup`. It keeps sums by member and group, and no logits."""

    members: int
    num_classes: int
    num_groups: int | None
    gap_of: Literal["member", "pool"]
    margin: float
    momentum: float

    def __post_init__(self) -> None:
        if self.gap_of not in ("member", "pool"):
            raise InputError(f"gap_of = {self.gap_of!r}; give 'member' or 'pool', or None to choose")
        if self.num_groups is not None and self.num_groups < 1:
            raise InputError(
                f"num_groups = {self.num_groups}; give the number of groups, or None for the classes"
            )
        if not 0 <= self.margin < 1:
            raise InputError(f"margin = {self.margin}; give a difference of probabilities, 0 to below 1")
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum = {self.momentum}; give the weight of the past, 0 to below 1")
        groups = self.num_classes if self.num_groups is None else self.num_groups
        self.active = shared_zeros(self.members, groups, dtype=torch.bool)
        # Right answers, confidence and count: of the running epoch, and the mean over those before.
        rows = self.members if self.gap_of == "member" else 1
        self.sums = torch.zeros(3, rows, groups, dtype=torch.float64)
        self.past = torch.zeros_like(self.sums)

    @property
    def by_class(self) -> bool:
        return self.num_groups is None

    def __call__(self, y: Tensor, group: Tensor | None, index: Tensor | None) -> Tensor:
        return lookup(self.active, self._groups(y, group, "y"))

    def validate(self, val_logits: Tensor, val_labels: Tensor, group: Tensor | None) -> None:
        if self.gap_of == "member" and len(val_logits) != self.members:
            raise InputError(
                f"val_logits have {len(val_logits)} members, this mixer {self.members}; "
                "build it with as many, or with gap_of='pool', which takes any number"
            )
        group = self._groups(val_labels, group, "val_labels").to(val_logits.device)
        probs = val_logits.double().softmax(-1)  # in float32 a confidence of 1 - 1e-8 would be 1
        if self.gap_of == "pool":
            probs = probs.mean(0, keepdim=True)
        confidence, predicted = probs.max(-1)
        right = (predicted == val_labels).double()
        values = torch.stack([right, confidence, torch.ones_like(confidence)])
        self.sums += values.new_zeros(self.sums.shape).index_add_(2, group, values).cpu()

    def update(self) -> None:
        now = sum_over_processes(self.sums)
        if not now[2].any():
            raise InputError(
                "no validation data since the last update; call validate(val_logits, val_labels) before "
                "update(), or update(val_logits, val_labels)"
            )
        mean = self.momentum * self.past + (1 - self.momentum) * now if self.past.any() else now
        right, confidence, count = mean
        tie = _TIE * (count - right)
        over = right <= confidence + tie
        if self.margin:
            over = right + self.margin * count < confidence - tie
        self.active.copy_(over & (count > 0))
        self.past.copy_(mean)
        self.sums.zero_()

    def state(self) -> dict[str, Tensor]:
        return {"active": self.active, "sums": self.sums, "past": self.past}

    def _groups(self, labels: Tensor, group: Tensor | None, name: str) -> Tensor:
        if self.num_groups is None:
            if group is not None:
                raise InputError("group was given to a CAMixup without num_groups, which mixes by class")
            return labels.long()
        if group is None:
            raise InputError(f"this CAMixup has num_groups = {self.num_groups}; give group, shaped as {name}")
        check_range(group, self.num_groups, "group", "num_groups")
        return group.long()
