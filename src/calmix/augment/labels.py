"""Labels as probabilities: one-hot, and smoothed."""

import torch
from torch import Tensor

from calmix.errors import InputError


def one_hot(labels: Tensor, num_classes: int) -> Tensor:
    """Labels (...) as probabilities (..., C), all mass on the label.

    >>> one_hot(torch.tensor([2, 0]), 3)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    check_range(labels, num_classes, "labels", "num_classes")
    zeros = torch.zeros(*labels.shape, num_classes, device=labels.device)
    return zeros.scatter_(-1, labels.long().unsqueeze(-1), 1.0)


def smooth_labels(targets: Tensor, amount: float, *, axis: int = -1) -> Tensor:
    """Move `amount` of each class's mass to the OTHER classes, in equal parts.

    A one-hot target becomes 1 - a on the true class and a / (C - 1) on each other, as the paper words it
    (torch's `label_smoothing` spreads over all classes: its a' is a C / (C - 1)). The rule is linear in the
    targets (..., C), so it holds for mixed ones too: t -> (1 - a) t + a (sum(t) - t) / (C - 1). Those of
    pixels, (M, B, C, H, W), have their classes on `axis=2`.

    >>> smooth_labels(torch.tensor([0.0, 1.0, 0.0]), 0.2)
    tensor([0.1000, 0.8000, 0.1000])
    """
    if not 0 <= amount <= 1:
        raise InputError(f"amount = {amount} is no share of a label; give a number from 0 to 1")
    if targets.shape[axis] < 2:
        raise InputError(f"targets {tuple(targets.shape)} have one class: there is no other to smooth over")
    others = targets.sum(axis, keepdim=True) - targets
    return (1 - amount) * targets + amount / (targets.shape[axis] - 1) * others


def check_tensor(value: object, name: str) -> None:
    """Refuse a list or a NumPy array, with the way to convert it."""
    if not isinstance(value, Tensor):
        raise InputError(f"{name} is a {type(value).__name__}; give a tensor: torch.as_tensor({name})")


def check_shape(values: Tensor | None, labels: Tensor, name: str) -> None:
    """Refuse groups or positions that are not one for each label; None passes."""
    if values is None:
        return
    check_tensor(values, name)
    if values.shape != labels.shape:
        raise InputError(
            f"{name} has shape {tuple(values.shape)}; give one for each label, {tuple(labels.shape)}"
        )


def check_range(values: Tensor, count: int, name: str, limit: str) -> None:
    """Refuse `values` outside 0 ... count - 1, and name the first; `limit` is the name of `count`."""
    check_tensor(values, name)
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise InputError(
            f"{name} are {values.dtype}; give whole numbers from 0 to {limit} - 1, e.g. torch.long"
        )
    if values.numel() == 0:
        return
    low, high = values.aminmax()
    if low >= 0 and high < count:
        return
    place = tuple(((values < 0) | (values >= count)).nonzero()[0].tolist())
    where = ", ".join(map(str, place))
    raise InputError(
        f"{name}[{where}] = {int(values[place])} is out of range: {limit} = {count}, so give 0 to {count - 1}"
    )
