"""Forgetting-count CAMixup: mix the examples that training forgets more often than most."""

from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from calmix.augment.labels import check_range
from calmix.augment.mixing import Batch, Mixing, Plan
from calmix.errors import InputError


class ForgettingMixup(nn.Module):
    """An example is mixed when its forgetting count exceeds the median count (Wen et al., 2021).

    An example is forgotten when a member that had it right the last time has it wrong now, judged on the
    training logits against its own label. `observe` gathers after every step; `update` adds the epoch's
    forgettings to `counts` (members, num_examples), takes the threshold sort(counts)[n // 2] of each member,
    and sets `active` = counts > threshold. Within an epoch both stand still. `index` is an example's position
    0 ... num_examples - 1 in the training split.

    `rule="pair"` is that of the paper's published scripts: own + partner's count > 2 x threshold.

    >>> mixer = ForgettingMixup(num_classes=2, num_examples=3, members=1)
    >>> y, index = torch.tensor([0, 0, 0]), torch.arange(3)
    >>> for z in (1.0, -1.0):  # example 0 is right, then wrong; the others are always right
    ...     mixer.observe(torch.tensor([[[z, 0.0], [1.0, 0.0], [1.0, 0.0]]]), y, index)
    ...     mixer.update()
    >>> mixer.counts, mixer.active
    (tensor([[1, 0, 0]], dtype=torch.int32), tensor([[ True, False, False]]))
    """

    counts: Tensor
    threshold: Tensor
    active: Tensor
    forgotten: Tensor
    right: Tensor
    seen: Tensor

    def __init__(
        self,
        num_classes: int,
        num_examples: int,
        members: int = 4,
        alpha: float = 1.0,
        *,
        rule: Literal["own", "pair"] = "own",
        partner: Literal["permutation", "reversed"] = "permutation",
    ) -> None:
        super().__init__()
        if num_examples < 1:
            raise InputError(f"num_examples = {num_examples}; give the size of the training split")
        if rule not in ("own", "pair"):
            raise InputError(f"rule = {rule!r}; give 'own' or 'pair'")
        self.mixing = Mixing(num_classes, alpha, members, partner=partner, fold=True)
        self.rule = rule
        self.register_buffer("counts", torch.zeros(members, num_examples, dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros(members, 1, dtype=torch.int32))
        self.register_buffer("active", torch.zeros(members, num_examples, dtype=torch.bool))
        # Of the running epoch: forgettings, the last judgement of each example, and whose judgement is new.
        self.register_buffer("forgotten", torch.zeros(members, num_examples, dtype=torch.int32))
        self.register_buffer("right", torch.zeros(members, num_examples, dtype=torch.bool))
        self.register_buffer("seen", torch.zeros(members, num_examples, dtype=torch.bool))

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
        index = self._positions(y, index, rows=max(self.mixing.members, y.shape[:-1].numel()))
        if self.rule == "own":
            return plan.only(self.active.expand(len(index), -1).gather(1, index))
        count = self.counts.expand(len(index), -1).gather(1, index)
        return plan.only(count + count.gather(1, plan.partner.expand_as(count)) > 2 * self.threshold)

    def forward(
        self,
        x: Tensor,
        y: Tensor,
        *,
        group: Tensor | None = None,
        index: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Batch:
        """Draw and mix: x (B, ...) with y (B,), or x (M, B, ...) with y (M, B); index is shaped as y."""
        return self.plan(y, index=index, generator=generator)(x)

    @torch.no_grad()
    def observe(self, train_logits: Tensor, y: Tensor, index: Tensor | None = None) -> None:
        """After a step: train_logits (M, B, C) of the rows trained on, their y and index, (B,) or (M, B)."""
        members = self.mixing.members
        if train_logits.shape != (members, y.shape[-1], self.mixing.num_classes):
            raise InputError(
                f"train_logits have shape {tuple(train_logits.shape)}; give (members, examples, classes) = "
                f"({members}, {y.shape[-1]}, {self.mixing.num_classes})"
            )
        index = self._positions(y, index, rows=members)
        right = train_logits.argmax(-1) == y
        forgot = self.right.gather(1, index) & ~right
        self.forgotten.scatter_add_(1, index, forgot.int())
        self.right.scatter_(1, index, right)
        self.seen.scatter_(1, index, True)

    @torch.no_grad()
    def update(
        self, val_logits: Tensor | None = None, val_labels: Tensor | None = None, group: Tensor | None = None
    ) -> None:
        """After an epoch: count what was observed, in all processes, and decide who is mixed in the next."""
        if dist.is_available() and dist.is_initialized():
            sums = torch.stack([self.forgotten, (self.seen & self.right).int(), self.seen.int()])
            dist.all_reduce(sums)
            self.forgotten = sums[0]
            self.right = torch.where(sums[2] > 0, sums[1] > 0, self.right)
        self.counts = self.counts + self.forgotten
        self.threshold = self.counts.sort(1).values[:, self.counts.shape[1] // 2].unsqueeze(1)
        self.active = self.counts > self.threshold
        self.forgotten = torch.zeros_like(self.forgotten)
        self.seen = torch.zeros_like(self.seen)

    def _positions(self, y: Tensor, index: Tensor | None, rows: int) -> Tensor:
        if index is None:
            raise InputError(
                "ForgettingMixup needs index: each example's position in the training split, shaped as y"
            )
        if index.shape != y.shape:
            raise InputError(
                f"index has shape {tuple(index.shape)}; give one for each label, {tuple(y.shape)}"
            )
        check_range(index, self.counts.shape[1], "index", "num_examples")
        return index.long().expand(rows, -1)

    def extra_repr(self) -> str:
        return f"{self.mixing}, num_examples={self.counts.shape[1]}, rule={self.rule!r}"
