"""Taking the logits out of what a module returns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from calmix.errors import InputError

Output: TypeAlias = str | int | Callable[[Any], Any] | None
"""How to take the logits: a key or attribute ("logits"), an index, a callable, or None for a plain tensor."""


def take_logits(result: Any, output: Output, rows: int, kind: str) -> Tensor:
    """The logits (rows, ...) in the `result` of a module called `kind`.

    >>> import torch
    >>> take_logits({"logits": torch.zeros(2, 3)}, "logits", 2, "Net").shape
    torch.Size([2, 3])
    """
    logits = result if output is None else select(result, output, kind)
    if not isinstance(logits, Tensor):
        hint = "" if output is not None else f"; say where its logits are, for example {suggestion(result)}"
        which = "" if output is None else f" as output={output!r}"
        raise InputError(f"{kind} returned a {type(logits).__name__}{which}, not a tensor{hint}")
    if logits.ndim == 0 or logits.shape[0] != rows:
        raise InputError(
            f"{kind} made {tuple(logits.shape)} of {rows} rows: its output must keep the batch as the first axis"
        )
    return logits


def select(result: Any, output: str | int | Callable[[Any], Any], kind: str) -> Any:
    try:
        if isinstance(output, str):
            return result[output] if isinstance(result, Mapping) else getattr(result, output)
        if isinstance(output, int):
            return result[output]
    except (AttributeError, IndexError, KeyError, TypeError):
        raise InputError(
            f"{kind} returned a {type(result).__name__} without output={output!r}; try {suggestion(result)}"
        ) from None
    return output(result)


def suggestion(result: Any) -> str:
    """An `output=` that would take a tensor out of `result`, as code."""
    fields = getattr(result, "_fields", ())  # of a named tuple
    if isinstance(result, Mapping) or fields:
        names = [str(name) for name in (result if isinstance(result, Mapping) else fields)]
        best = "logits" if "logits" in names else names[0] if names else "logits"
        return f'output="{best}" (it has {", ".join(names)})' if names else "a callable"
    if isinstance(result, Sequence):
        return f"output={next((i for i, value in enumerate(result) if isinstance(value, Tensor)), 0)}"
    return 'output="logits" for an attribute, or a callable' if not isinstance(result, Tensor) else "output=None"
