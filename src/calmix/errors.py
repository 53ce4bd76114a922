"""`InputError`, and the validators that raise it."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Input that cannot be used; the message says what is wrong, where, and what to do instead.

    The command line prints the message alone and exits with 2; every other exception is a defect of calmix.
    """


def one_of(name: str, value: str, valid: Iterable[str]) -> None:
    """Refuse a value that is not valid, naming the nearest one that is."""
    valid = list(valid)
    if value not in valid:
        near = difflib.get_close_matches(value, valid, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"unknown {name} {value!r}; {hint}valid: {', '.join(valid)}")


def at_least(name: str, value: float, low: float) -> None:
    if not value >= low:  # nan is refused too
        raise InputError(f"{name} must be at least {low}, got {value}")


def above(name: str, value: float, low: float) -> None:
    if not value > low:
        raise InputError(f"{name} must be above {low}, got {value}")
