"""`InputError`, the validators that raise it, and text that is safe to show."""

import difflib
import unicodedata
from collections.abc import Iterable

HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # control, format, surrogate, private, line and paragraph


class InputError(ValueError):
    """Input that cannot be used; the message says what is wrong, where, and what to do instead.

    The command line prints the message alone and exits with 2; every other exception is a defect of calmix.
    """


def printable(text: object) -> str:
    """Text for a terminal: control characters and bytes that are no UTF-8 are escaped, lines stay lines.

    >>> printable("runs/\\x1b[31mred")
    'runs/\\\\x1b[31mred'
    """
    shown = (c if c == "\n" or unicodedata.category(c) not in HIDDEN else _escaped(c) for c in str(text))
    return "".join(shown)


def one_of(name: str, value: str, valid: Iterable[str]) -> None:
    """Refuse a value that is not valid, naming the nearest one that is."""
    valid = list(valid)
    if value not in valid:
        near = difflib.get_close_matches(value[:100], valid, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        shown = value if len(value) <= 100 else value[:97] + "..."
        raise InputError(f"unknown {name} {shown!r}; {hint}valid: {', '.join(valid)}")


def at_least(name: str, value: float, low: float) -> None:
    if not value >= low:  # nan is refused too
        raise InputError(f"{name} must be at least {low}, got {value}")


def above(name: str, value: float, low: float) -> None:
    if not value > low:
        raise InputError(f"{name} must be above {low}, got {value}")


def at_most(name: str, value: float, high: float) -> None:
    if not value <= high:
        raise InputError(f"{name} must be at most {high:,}, got {value}")


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a path that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
