"""CAMixup: mix the groups of examples on which the network is over-confident."""

from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from calmix.augment.labels import check_range
from calmix.augment.mixing import Batch, Mixing, Plan
from calmix.errors import InputError

# What float32 logits cannot tell from equal is equal; relative to the errors, so that none allows none.
_TIE = 1e-6


class CAMixup(nn.Module):
    """Class i is mixed while Acc(C_i) <= Conf(C_i) on validation data (Wen et al., 2021).

    `active` (members, groups) says who is mixed, at first nobody; `update` judges anew after every epoch, and
    `history` (epochs, members, groups) keeps each verdict. An example's own group decides, not its partner's;
    its own image dominates (lam is folded); a group without validation examples is not mixed. Groups are the
    classes, or with `num_groups` whatever `group` says: age bands, coarse labels.

    `gap_of="member"` judges each member by its own predictions, as in the paper; `gap_of="pool"` judges all
    by the mean of any number of members' probabilities, which is what will be used: a pool is less confident
    than its members.

    >>> mixer = CAMixup(num_classes=2, members=1)
    >>> mixer.update(torch.tensor([[[9.0, 0.0], [9.0, 0.0]]]), torch.tensor([0, 1]))
    >>> mixer.active  # always right on class 0, wrong and sure on class 1
    tensor([[False,  True]])
    """

    active: Tensor
    history: Tensor

    def __init__(
        self,
        num_classes: int,
        members: int = 4,
        alpha: float = 1.0,
        gap_of: Literal["member", "pool"] = "member",
        num_groups: int | None = None,
        mix: Literal["mixup", "cutmix"] = "mixup",
        *,
        partner: Literal["permutation", "reversed"] = "permutation",
    ) -> None:
        super().__init__()
        if gap_of not in ("member", "pool"):
            raise InputError(f"gap_of = {gap_of!r}; give 'member' or 'pool'")
        if num_groups is not None and num_groups < 1:
            raise InputError(f"num_groups = {num_groups}; give the number of groups, or None for the classes")
        self.mixing = Mixing(num_classes, alpha, members, mix=mix, partner=partner, fold=True)
        self.gap_of = gap_of
        self.num_groups = num_groups
        groups = num_classes if num_groups is None else num_groups
        self.register_buffer("active", torch.zeros(members, groups, dtype=torch.bool))
        self.register_buffer("history", torch.zeros(0, members, groups, dtype=torch.bool))

    def plan(
        self,
        y: Tensor,
        *,
        group: Tensor | None = None,
        index: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Plan:
        """Draw partners and shares, for `plan(x)` to carry out on each view of the images."""
        plan = self.mixing.draw(y, generator)
        group = self._groups(y, group, "y").long().expand(max(self.mixing.members, y.shape[:-1].numel()), -1)
        return plan.only(self.active.expand(len(group), -1).gather(1, group))

    def forward(
        self,
        x: Tensor,
        y: Tensor,
        *,
        group: Tensor | None = None,
        index: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Batch:
        """Draw and mix: x (B, ...) with y (B,), or x (M, B, ...) with y (M, B); group is shaped as y."""
        return self.plan(y, group=group, generator=generator)(x)

    def observe(self, train_logits: Tensor, y: Tensor, index: Tensor | None = None) -> None:
        """Nothing to learn from training logits."""

    @torch.no_grad()
    def update(self, val_logits: Tensor, val_labels: Tensor, group: Tensor | None = None) -> None:
        """Judge every group anew: val_logits (M, N, C), val_labels (N,), group (N,) if not the classes.

        In distributed training each process gives its share of the validation data, and all come to one
        verdict.
        """
        members, classes = self.mixing.members, self.mixing.num_classes
        if val_logits.ndim != 3 or val_logits.shape[2] != classes:
            raise InputError(
                f"val_logits have shape {tuple(val_logits.shape)}; give (members, examples, {classes})"
            )
        if self.gap_of == "member" and len(val_logits) != members:
            raise InputError(
                f"val_logits have {len(val_logits)} members, this mixer {members}; "
                "make it with as many, or with gap_of='pool', which takes any number"
            )
        if val_labels.shape != val_logits.shape[1:2]:
            raise InputError(
                f"val_labels have shape {tuple(val_labels.shape)}, val_logits {tuple(val_logits.shape)}; "
                f"give one label for each example, ({val_logits.shape[1]},)"
            )
        check_range(val_labels, classes, "val_labels", "num_classes")
        group = self._groups(val_labels, group, "val_labels").long()

        probs = val_logits.double().softmax(-1)  # in float32 a confidence of 1 - 1e-8 would be 1
        if self.gap_of == "pool":
            probs = probs.mean(0, keepdim=True)
        confidence, predicted = probs.max(-1)
        right = (predicted == val_labels).double()
        sums = torch.stack([right, confidence, torch.ones_like(confidence)])
        zeros = sums.new_zeros(*sums.shape[:2], self.active.shape[1])
        sums = zeros.index_add_(2, group, sums).to(self.active.device)
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(sums)
        right, confidence, count = sums
        tie = _TIE * (count - right)
        self.active = ((right <= confidence + tie) & (count > 0)).expand(members, -1).clone()
        self.history = torch.cat([self.history, self.active.unsqueeze(0)])

    def _groups(self, labels: Tensor, group: Tensor | None, name: str) -> Tensor:
        if self.num_groups is None:
            if group is not None:
                raise InputError("group was given to a CAMixup made without num_groups, which goes by class")
            return labels
        if group is None:
            raise InputError(
                f"this CAMixup was made with num_groups = {self.num_groups}; give group, shaped as {name}"
            )
        if group.shape != labels.shape:
            raise InputError(
                f"group has shape {tuple(group.shape)}; give one for each label, {tuple(labels.shape)}"
            )
        check_range(group, self.num_groups, "group", "num_groups")
        return group

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if (stored := state_dict.get(prefix + "history")) is not None:  # as many epochs as were saved
            self.history = self.history.new_zeros(len(stored), *self.history.shape[1:])
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        return f"{self.mixing}, gap_of={self.gap_of!r}, num_groups={self.num_groups}"
