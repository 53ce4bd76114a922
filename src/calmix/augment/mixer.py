"""The mixer: how pairs are mixed (`Mixing`) and which examples are (a policy), put together as a module."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calmix.augment.batch import Batch
from calmix.augment.labels import check_range, check_shape, check_tensor
from calmix.augment.mixing import Mixing, Plan
from calmix.augment.policy import FixedClasses, Policy
from calmix.errors import InputError
from calmix.metrics.trailing import class_rows


class Mixer(nn.Module):
    """Mix the examples that `where` selects, as `mixing` says; `Mixup`, `CAMixup` and the others build it.

    A training loop is the same for all mixers: what a policy does not need is ignored.

        batch = mixer(x, y, generator=g)        # for every batch
        mixer.observe(logits, y, index)         # after its step
        mixer.validate(val_logits, val_labels)  # for every batch of validation data
        mixer.update()                          # after an epoch

    `enabled = False` stops all mixing, whatever the policy selects. It is a plain attribute: `state_dict`
    does not keep it, and a running DataLoader worker does not see it. All else that changes is saved, and
    `active` lies in shared memory, so that the workers of a DataLoader see its changes.
    """

    def __init__(self, mixing: Mixing, where: Policy | None = None) -> None:
        super().__init__()
        self.mixing = mixing
        self.where: Any = where
        if where is None:
            self.where = FixedClasses(mixing.members, mixing.num_classes, mixed=True)
        self.enabled = True
        self._history = np.zeros((0, -(-self.active.numel() // 8)), dtype=np.uint8)  # an epoch a row, in bits

    @property
    def active(self) -> Tensor:
        """Bool (members, groups): what is mixed from now on. A policy without it may mix every class."""
        if hasattr(self.where, "active"):
            return self.where.active  # type: ignore[no-any-return]
        return torch.ones(self.mixing.members, self.mixing.num_classes, dtype=torch.bool)

    @active.setter
    def active(self, value: Tensor) -> None:
        self.where.active.copy_(value)

    @property
    def history(self) -> Tensor:
        """Bool (epochs, members, groups): what was mixed in each epoch, the `active` of that time."""
        shape = self.active.shape
        bits = np.unpackbits(self._history, axis=1, count=shape.numel())
        return torch.from_numpy(bits).bool().view(len(bits), *shape)

    def plan(
        self,
        y: Tensor,
        *,
        per_member: bool = False,
        group: Tensor | None = None,
        index: Tensor | None = None,
        ignore_index: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Plan:
        """Draw partners and lam once, for `plan(x)` to mix each view of the images by them.

        y (B,), or with `per_member` (M, B); group and index are shaped as y. In segmentation y is (B, H, W),
        or (M, B, H, W), and group and index are still those of images. Pixels labelled `ignore_index` have no
        target.
        """
        plan = self.mixing.draw(y, per_member=per_member, ignore_index=ignore_index, generator=generator)
        images = plan.examples
        check_shape(group, images, "group")
        check_shape(index, images, "index")
        if not self.enabled:
            return plan.where(torch.zeros_like(images, dtype=torch.bool))
        return plan.where(self._select(plan, group, index))

    def _select(self, plan: Plan, group: Tensor | None, index: Tensor | None) -> Tensor:
        """What the policy selects; an error of it, or another shape, is told with its name."""
        if plan.pixels and isinstance(self.where, FixedClasses):
            return self.where.images(plan.examples)
        if plan.pixels and getattr(self.where, "by_class", False):
            raise InputError(
                f"y has shape {tuple(plan.y.shape)}, a label for each pixel, and this mixer selects by "
                "class: build it with num_groups, and give the group of each image"
            )
        pairs = getattr(self.where, "pairs", None)
        try:
            if pairs is not None:
                mask = pairs(plan.y, group, index, plan.partner)
            else:
                mask = self.where(plan.y, group, index)
        except InputError:
            raise
        except Exception as error:
            given = ", ".join(
                f"{name} {'None' if value is None else tuple(value.shape)}"
                for name, value in (("y", plan.y), ("group", group), ("index", index))
            )
            raise InputError(
                f"the policy {_name(self.where)} raised {type(error).__name__}: {error} (called with {given})"
            ) from error
        reason = plan.mismatch(mask)
        if reason:
            raise InputError(f"the policy {_name(self.where)} returned {reason}")
        return mask  # type: ignore[no-any-return]

    def forward(
        self,
        x: Tensor,
        y: Tensor,
        *,
        per_member: bool = False,
        group: Tensor | None = None,
        index: Tensor | None = None,
        ignore_index: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Batch:
        """Draw and mix: x (B, ...) with y (B,), or with `per_member` x (M, B, ...) with y (M, B).

        In segmentation y is (B, H, W), and the batch's targets (members, B', C, H, W).
        """
        plan = self.plan(
            y, per_member=per_member, group=group, index=index, ignore_index=ignore_index, generator=generator
        )
        return plan(x)

    @torch.no_grad()
    def observe(self, train_logits: Tensor, y: Tensor, index: Tensor | None = None) -> None:
        """After a step: train_logits (M, B, C) of a batch, its y and index, (B,) or (M, B)."""
        if observe := getattr(self.where, "observe", None):
            if getattr(y, "ndim", 1) > 2:
                raise InputError(f"y has shape {tuple(y.shape)}; observe takes one label for each example")
            check_range(y, self.mixing.num_classes, "y", "num_classes")
            check_shape(index, y, "index")
            observe(train_logits, y, index)

    @torch.no_grad()
    def validate(
        self,
        val_logits: Tensor,
        val_labels: Tensor,
        group: Tensor | None = None,
        *,
        ignore_index: int | None = None,
    ) -> None:
        """A batch of validation data: val_logits (M, N, C), val_labels (N,), group (N,) if not the classes.

        In distributed training each process gives its part of the data; `update` adds them up. In
        segmentation, val_logits (M, N, C, H, W) and val_labels (N, H, W), every pixel counts as an example in
        the group of its image; those labelled `ignore_index` do not.
        """
        validate = getattr(self.where, "validate", None)
        if validate is None:
            return
        classes = self.mixing.num_classes
        check_tensor(val_logits, "val_logits")
        check_tensor(val_labels, "val_labels")
        if val_logits.ndim > 3 or ignore_index is not None:
            val_logits, val_labels, group = _pixel_rows(val_logits, val_labels, group, ignore_index)
            if not len(val_labels):
                return
        check_range(val_labels, classes, "val_labels", "num_classes")
        check_shape(group, val_labels, "group")
        if val_logits.ndim != 3 or val_logits.shape[2] != classes:
            raise InputError(
                f"val_logits have shape {tuple(val_logits.shape)}; give (members, examples, {classes})"
            )
        if val_labels.shape != val_logits.shape[1:2]:
            raise InputError(
                f"val_labels have shape {tuple(val_labels.shape)}, val_logits {tuple(val_logits.shape)}; "
                f"give one label for each example, ({val_logits.shape[1]},)"
            )
        top = val_logits.amax(-1)  # NaN or inf where the row has one, -inf where it has nothing else
        if not top.isfinite().all():
            member, example = (~top.isfinite()).nonzero()[0].tolist()
            raise InputError(
                f"val_logits[{member}, {example}] has the largest logit {top[member, example].item()}; every "
                "row needs a finite one: has the training diverged?"
            )
        validate(val_logits, val_labels.to(val_logits.device), group)

    @torch.no_grad()
    def update(
        self,
        val_logits: Tensor | None = None,
        val_labels: Tensor | None = None,
        group: Tensor | None = None,
        *,
        ignore_index: int | None = None,
    ) -> None:
        """After an epoch: decide what is mixed in the next, from all that was validated and observed.

        `update(val_logits, val_labels, group)` validates these first.
        """
        if val_logits is not None and val_labels is not None:
            self.validate(val_logits, val_labels, group, ignore_index=ignore_index)
        elif val_logits is not None or val_labels is not None or group is not None:
            raise InputError("give val_logits and val_labels together, or neither and call validate() before")
        mixed = self.active & bool(self.enabled)
        if update := getattr(self.where, "update", None):
            update()
        row = np.packbits(mixed.cpu().numpy().reshape(1, -1), axis=1)
        self._history = np.concatenate([self._history, row])

    def get_extra_state(self) -> dict[str, Any]:
        """History and the policy's tensors; buffers would be averaged with those of the model (SWA)."""
        return {"history": torch.from_numpy(self._history), "where": self._policy_state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Load in place, so that workers see it."""
        history, saved, own = state["history"], state["where"], self._policy_state()
        shapes = [{k: tuple(v.shape) for k, v in tensors.items()} for tensors in (saved, own)]
        if shapes[0] != shapes[1] or history.shape[1] != self._history.shape[1]:
            raise InputError(
                f"the saved mixer has {shapes[0]}, this one {shapes[1]}; build it with the same members, "
                "classes and policy"
            )
        self._history = history.cpu().numpy().copy()
        for name, tensor in own.items():
            tensor.copy_(saved[name])

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy shares its memory with workers too; `deepcopy` alone would not."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        for tensor in self._policy_state().values():
            tensor.share_memory_()

    def _policy_state(self) -> dict[str, Tensor]:
        return self.where.state() if hasattr(self.where, "state") else {}

    def extra_repr(self) -> str:
        return f"{self.mixing}, {self.where}"


def _name(policy: Any) -> str:
    """The name of a function, or of an object's class."""
    return getattr(policy, "__qualname__", None) or type(policy).__qualname__


def _pixel_rows(
    logits: Tensor, labels: Tensor, group: Tensor | None, ignore_index: int | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Pixels as examples, (M, N * ..., C), each in the group of its image, without those to ignore."""
    expected = (*logits.shape[1:2], *logits.shape[3:])
    if labels.shape != expected:
        raise InputError(
            f"val_labels have shape {tuple(labels.shape)}, val_logits {tuple(logits.shape)}; "
            f"give one label for each pixel, {tuple(expected)}"
        )
    if group is not None:
        check_shape(group, labels.flatten(1)[:, 0] if labels.ndim > 1 else labels, "group")
        group = group.repeat_interleave(labels[0].numel())
    logits, labels = class_rows(logits, axis=2), labels.flatten()
    if ignore_index is None:
        return logits, labels, group
    kept = labels != ignore_index
    rows = logits[:, kept.to(logits.device)]
    return rows, labels[kept], None if group is None else group[kept.to(group.device)]
