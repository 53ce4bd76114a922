"""The arguments of a call, with the member axis in front of every tensor."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from calmix.errors import InputError

Example: TypeAlias = Tensor | Sequence[Any] | Mapping[str, Any]
"""Arguments for one call of a module: a tensor, several by position, or several by name."""


@dataclass(frozen=True)
class Inputs:
    """Arguments by position and by name; the tensors among them are alike in their leading axes."""

    args: tuple[Any, ...]
    named: dict[str, Any]

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor with the name that an error should call it by."""
        for i, value in enumerate(self.args):
            if isinstance(value, Tensor):
                yield f"argument {i}" if i else "x", value
        for name, value in self.named.items():
            if isinstance(value, Tensor):
                yield name, value

    @property
    def first(self) -> Tensor:
        return next(tensor for _, tensor in self.tensors())

    def map(self, function: Callable[[Tensor], Tensor]) -> "Inputs":
        """Apply `function` to every tensor; other values stay as they are."""

        def apply(value: Any) -> Any:
            return function(value) if isinstance(value, Tensor) else value

        return Inputs(tuple(map(apply, self.args)), {name: apply(value) for name, value in self.named.items()})

    def fold(self) -> "Inputs":
        """Tensors (M, B, ...) as (M * B, ...), member-major."""
        return self.map(lambda tensor: tensor.flatten(0, 1))

    def call(self, module: nn.Module) -> Any:
        return module(*self.args, **self.named)


def positional(x: Any, more: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments by position of `forward(x=None, *more)`: no x means that all are given by name."""
    return (x, *more) if x is not None or more else ()


def member_inputs(args: Sequence[Any], named: Mapping[str, Any], members: int, *, per_member: bool) -> Inputs:
    """Expand every tensor to (members, B, ...), from (B, ...) or, with `per_member`, (members or 1, B, ...).

    Nothing is copied. None and other values that are no tensors pass as they are.

    >>> member_inputs([torch.zeros(1, 5, 2)], {"mask": None}, 4, per_member=True).first.shape
    torch.Size([4, 5, 2])
    """
    inputs = Inputs(tuple(args), dict(named))
    batch: tuple[str, int] | None = None
    for name, tensor in inputs.tensors():
        if tensor.ndim == 0:
            raise InputError(f"{name} is a single number; a tensor must be (B, ...), with the batch axis first")
        if per_member and (tensor.ndim < 2 or tensor.shape[0] not in (1, members)):
            raise InputError(
                f"{name} has the shape {tuple(tensor.shape)}; with per_member=True every tensor must be "
                f"({members} or 1, B, ...), with the member axis first"
            )
        size = tensor.shape[int(per_member)]
        if batch is None:
            batch = name, size
        elif size != batch[1]:
            raise InputError(
                f"{name} has the shape {tuple(tensor.shape)}, so its batch axis has {size} rows, but that of "
                f"{batch[0]} has {batch[1]}: every tensor must be batch-first with the same B; set what is "
                "common to all rows as an attribute of the module"
            )
    if batch is None:
        raise InputError("no tensor among the arguments: give at least one, (B, ...), with the batch axis first")
    return inputs.map(lambda x: x.expand(members, *x.shape[1:]) if per_member else x.expand(members, *x.shape))


def example_inputs(example: Example) -> Inputs:
    """The arguments in `example`, checked: at least one row, and the same number of rows in every tensor.

    >>> example_inputs({"input_ids": torch.zeros(2, 5, dtype=torch.int64), "labels": None}).first.shape
    torch.Size([2, 5])
    """
    if isinstance(example, Mapping):
        args: tuple[Any, ...] = ()
        named = {str(name): value for name, value in example.items()}
    else:
        args, named = (example,) if isinstance(example, Tensor) else tuple(example), {}
    if any(tensor.ndim == 0 or len(tensor) == 0 for _, tensor in Inputs(args, named).tensors()):
        raise InputError("example has no rows: give an input (B, ...) with at least one")
    return member_inputs(args, named, 1, per_member=False).map(lambda x: x[0])


def each_member(inputs: Inputs) -> Iterator[Inputs]:
    """The arguments of each member in turn, which the member may change in place.

    Neither the next member nor the caller may see such a change. The first member gets a copy; only if that
    was changed do the others get one, because all members run the same code.
    """
    members = len(inputs.first)
    first = inputs.map(lambda x: x[0].clone())
    tracked = [tensor for _, tensor in first.tensors()]
    inference = any(tensor.is_inference() for tensor in tracked)  # these have no version counter
    before = [] if inference else [tensor._version for tensor in tracked]
    yield first
    changed = inference or before != [tensor._version for tensor in tracked]
    for k in range(1, members):
        yield inputs.map(lambda x, k=k: x[k].clone() if changed else x[k])  # type: ignore[misc]


def contiguous_copy(inputs: Inputs) -> Inputs:
    """A copy that the network may change, contiguous: masks follow the memory layout."""
    return inputs.map(lambda x: x.clone(memory_format=torch.contiguous_format))
