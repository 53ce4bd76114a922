"""How the ensembles behave under torch.compile and torch.export."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def is_exporting() -> bool:
    """Whether torch.export traces this call: sizes are symbols then, and no branch may depend on them."""
    if hasattr(torch.compiler, "is_exporting"):
        return bool(torch.compiler.is_exporting())
    return torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()  # before torch 2.7


def outside_graphs(function: Function, *, recursive: bool = True) -> Function:
    """`torch.compiler.disable`, applied at the first call, because it imports the compiler (seconds).

    With `recursive=False`, functions called by this one may still be compiled.
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if not hasattr(function, "disabled"):
            function.disabled = torch.compiler.disable(function, recursive=recursive)  # type: ignore[attr-defined, no-untyped-call]
        return function.disabled(*args, **options)  # type: ignore[attr-defined]

    return call  # type: ignore[return-value]
