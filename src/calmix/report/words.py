"""Lists in sentences."""

from collections.abc import Sequence


def listed(texts: Sequence[str]) -> str:
    """
    >>> listed(["BE"]), listed(["BE", "MC", "DE"]), listed([])
    ('BE', 'BE, MC and DE', '')
    """
    *first, last = texts or ("",)
    return f"{', '.join(first)} and {last}" if first else last
