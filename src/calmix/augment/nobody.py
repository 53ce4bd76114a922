"""The mixer that mixes nobody, so that training without mixing needs no special case."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from calmix.augment.labels import check_range, one_hot
from calmix.augment.mixing import Batch


@dataclass(frozen=True)
class CleanPlan:
    """Rows as they are, with one-hot targets."""

    y: Tensor
    num_classes: int

    def __call__(self, x: Tensor) -> Batch:
        """x (B, ...) with y (B,), or x (M, B, ...) with y (M, B)."""
        inputs, y = (x, self.y) if self.y.ndim == 2 else (x.unsqueeze(0), self.y.unsqueeze(0))
        return Batch(inputs, one_hot(y, self.num_classes), torch.ones(y.shape, device=x.device))


class Unmixed(nn.Module):
    """Mix nobody: inputs (1, B, ...) and one-hot targets, in the form that every mixer gives.

    >>> Unmixed(num_classes=3)(torch.rand(2, 5), torch.tensor([0, 2])).targets
    tensor([[[1., 0., 0.],
             [0., 0., 1.]]])
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes

    def plan(
        self,
        y: Tensor,
        *,
        group: Tensor | None = None,
        index: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> CleanPlan:
        """Nothing is drawn."""
        check_range(y, self.num_classes, "y", "num_classes")
        return CleanPlan(y.long(), self.num_classes)

    def forward(
        self,
        x: Tensor,
        y: Tensor,
        *,
        group: Tensor | None = None,
        index: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Batch:
        """x (B, ...) with y (B,), or x (M, B, ...) with y (M, B)."""
        return self.plan(y)(x)

    def observe(self, train_logits: Tensor, y: Tensor, index: Tensor | None = None) -> None:
        """Nothing to learn from."""

    def update(
        self, val_logits: Tensor | None = None, val_labels: Tensor | None = None, group: Tensor | None = None
    ) -> None:
        """Nothing to change."""
