"""A mixed batch, and the loss of each member on it."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from calmix.augment.losses import cross_entropy
from calmix.errors import InputError


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows to train on: inputs (members, B', ...), targets (members, B', C) and weights (members, B').

    Targets are (members, B', C, ...) where every pixel has its own (segmentation).

    `images` images give B' = images rows, or twice as many where clean and mixed rows are both used. The
    leading axis is 1 where all members see the same rows. Targets are changed with
    `dataclasses.replace(batch, targets=smooth_labels(batch.targets, 0.1))`.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    images: int

    def loss(self, logits: Tensor, *, loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy) -> Tensor:
        """The loss of each member, (members,): the weighted sum over the rows, divided by the IMAGES.

        logits (members, B', C) are those of `model(batch.inputs, per_member=True)`; `loss(logits, targets)`
        gives one value for each member and row. Take `.mean()` for members that share weights, `.sum()` for
        independent ones.

        Of logits (members, B', C, ...) with a target for each pixel, an image counts as the mean over its
        pixels; those to ignore, whose targets are all 0, count neither in the sum nor in the mean, which is
        then over all pixels of the batch that are left.

        >>> import torch
        >>> batch = Batch(torch.rand(1, 2, 5), torch.eye(2).unsqueeze(0), torch.ones(1, 2), images=2)
        >>> batch.loss(torch.zeros(4, 2, 2))
        tensor([0.6931, 0.6931, 0.6931, 0.6931])
        """
        (members, rows), (classes, *more) = self.weights.shape, self.targets.shape[2:]
        fits = logits.ndim == 3 + len(more) and logits.shape[1:] == (rows, classes, *more)
        if not fits or members not in (1, len(logits)):
            expected = ", ".join(map(str, ("members" if members == 1 else members, rows, classes, *more)))
            raise InputError(
                f"logits have shape {tuple(logits.shape)}; this batch needs ({expected}), those of "
                "model(batch.inputs, per_member=True): was per_member=True forgotten?"
            )
        values = loss(logits, self.targets)
        shape = (*logits.shape[:2], *more)
        if values.shape != shape:
            raise InputError(
                f"loss returned the shape {tuple(values.shape)}; give one that returns a value for each "
                f"member and row, {tuple(shape)}, and does not reduce"
            )
        if not more:
            return (self.weights * values).sum(1) / self.images
        weights = self.weights.view(members, rows, *[1] * len(more))
        labelled = self.targets.sum(2).flatten(1).sum(1) / rows  # pixels of an image, on average
        return (weights * values).flatten(1).sum(1) / (self.images * labelled.clamp(min=1e-12))
