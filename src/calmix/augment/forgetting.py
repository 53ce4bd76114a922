"""Forgetting-count CAMixup: mix the examples that training forgets more often than most."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calmix.augment.labels import check_range
from calmix.augment.mixer import Mixer
from calmix.augment.mixing import Mixing, Partner
from calmix.augment.policy import lookup, shared_zeros, sum_over_processes
from calmix.errors import InputError


class ForgettingMixup(Mixer):
    """An example is mixed when its forgetting count exceeds the median count (Wen et al., 2021).

    An example is forgotten when a member that had it right the last time has it wrong now, by the training
    logits against its own label. `observe` gathers after every step; `update` adds the epoch's forgettings to
    `counts` (members, num_examples), takes the threshold sort(counts)[n // 2] of each member, and sets
    `active` = counts > threshold. Within an epoch both stand still. `index` is an example's position
    0 ... num_examples - 1 in the training split.

    `rule="pair"` is that of the paper's published scripts: own + partner's count > 2 x threshold.

    >>> mixer = ForgettingMixup(num_classes=2, num_examples=3)
    >>> y, index = torch.tensor([0, 0, 0]), torch.arange(3)
    >>> for z in (1.0, -1.0):  # example 0 is right, then wrong; the others are always right
    ...     mixer.observe(torch.tensor([[[z, 0.0], [1.0, 0.0], [1.0, 0.0]]]), y, index)
    ...     mixer.update()
    >>> mixer.counts, mixer.active
    (tensor([[1, 0, 0]], dtype=torch.int32), tensor([[ True, False, False]]))
    """

    def __init__(
        self,
        num_classes: int,
        num_examples: int,
        *,
        alpha: float = 1.0,
        members: int = 1,
        rule: Literal["own", "pair"] = "own",
        partner: Partner = "permutation",
    ) -> None:
        mixing = Mixing(num_classes, alpha, members, partner=partner, fold=True)
        super().__init__(mixing, ForgottenExamples(members, num_classes, num_examples, rule))

    @property
    def counts(self) -> Tensor:
        counts: Tensor = self.where.counts
        return counts


@dataclass(eq=False)
class ForgottenExamples:
    """The policy of `ForgettingMixup`; its groups are the examples themselves."""

    members: int
    num_classes: int
    num_examples: int
    rule: Literal["own", "pair"]

    def __post_init__(self) -> None:
        if self.num_examples < 1:
            raise InputError(f"num_examples = {self.num_examples}; give the size of the training split")
        if self.rule not in ("own", "pair"):
            raise InputError(f"rule = {self.rule!r}; give 'own' or 'pair'")
        shape = (self.members, self.num_examples)
        self.counts = shared_zeros(*shape, dtype=torch.int32)
        self.threshold = shared_zeros(self.members, 1, dtype=torch.int32)
        self.active = shared_zeros(*shape, dtype=torch.bool)
        # Of the running epoch: forgettings, the last answer to each example, and which answers are new.
        self.forgotten = torch.zeros(shape, dtype=torch.int32)
        self.right = torch.zeros(shape, dtype=torch.bool)
        self.seen = torch.zeros(shape, dtype=torch.bool)

    def __call__(self, y: Tensor, group: Tensor | None, index: Tensor | None) -> Tensor:
        return lookup(self.active, self._positions(index))

    def pairs(self, y: Tensor, group: Tensor | None, index: Tensor | None, partner: Tensor) -> Tensor:
        if self.rule == "own":
            return self(y, group, index)
        count = lookup(self.counts, self._positions(index))
        both = count + count.gather(1, partner.expand_as(count))
        return both > 2 * self.threshold.to(both.device)

    def observe(self, train_logits: Tensor, y: Tensor, index: Tensor | None) -> None:
        expected = (self.members, y.shape[-1], self.num_classes)
        if train_logits.shape != expected:
            raise InputError(
                f"train_logits have shape {tuple(train_logits.shape)}; give (members, examples, classes) = "
                f"{expected}, or build the mixer with the ensemble's number of members"
            )
        index = self._positions(index).cpu().expand(self.members, -1)
        right = (train_logits.argmax(-1) == y.to(train_logits.device)).cpu()
        forgot = self.right.gather(1, index) & ~right
        self.forgotten.scatter_add_(1, index, forgot.int())
        self.right.scatter_(1, index, right)
        self.seen.scatter_(1, index, True)

    def update(self) -> None:
        now = torch.stack([self.forgotten, (self.seen & self.right).int(), self.seen.int()])
        forgotten, right, seen = sum_over_processes(now)
        if not seen.any():
            raise InputError(
                "no training logits since the last update; call observe(train_logits, y, index) after steps"
            )
        self.right.copy_(torch.where(seen > 0, right > 0, self.right))
        self.counts += forgotten
        self.threshold.copy_(self.counts.sort(1).values[:, self.num_examples // 2].unsqueeze(1))
        self.active.copy_(self.counts > self.threshold)
        self.forgotten.zero_()
        self.seen.zero_()

    def state(self) -> dict[str, Tensor]:
        names = ("counts", "threshold", "active", "forgotten", "right", "seen")
        return {name: getattr(self, name) for name in names}

    def _positions(self, index: Tensor | None) -> Tensor:
        if index is None:
            raise InputError(
                "ForgettingMixup needs index: each example's position in the training split, shaped as y"
            )
        check_range(index, self.num_examples, "index", "num_examples")
        return index.long()
