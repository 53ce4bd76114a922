"""Functions that torch.compile leaves alone."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def outside_graphs(function: Function, *, recursive: bool = True) -> Function:
    """`torch.compiler.disable`, put off to the first call: it imports the compiler, which takes seconds.

    With `recursive=False` what the function calls may be compiled again.
    """

    @functools.wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        if not hasattr(function, "disabled"):
            function.disabled = torch.compiler.disable(function, recursive=recursive)  # type: ignore[attr-defined, no-untyped-call]
        return function.disabled(*given, **options)  # type: ignore[attr-defined]

    return call  # type: ignore[return-value]
