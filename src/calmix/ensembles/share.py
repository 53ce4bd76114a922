"""`share=`: which parts of a network stay common to all members of a BatchEnsemble."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from torch import nn

from calmix.errors import InputError

Share: TypeAlias = type[nn.Module] | str
"""A module type, or the name of modules or parameters, with wildcards."""


def check_share(share: object) -> tuple[Share, ...]:
    """`share` as a tuple, or InputError for entries that are neither module types nor names."""
    entries = (share,) if isinstance(share, (str, type)) else share
    if not isinstance(entries, Iterable):
        raise InputError(f"share must be a tuple of module types and names, got {share!r}")
    checked = tuple(entries)
    for entry in checked:
        if not isinstance(entry, str) and not (isinstance(entry, type) and issubclass(entry, nn.Module)):
            raise InputError(f"share has the entry {entry!r}; give module types (nn.Embedding) or names ('*.gamma')")
    return checked


def name_matches(name: str, pattern: str) -> bool:
    """Whether a dotted name matches: in full, with wildcards, or a plain word as its last component.

    >>> name_matches("blocks.3.gamma", "*.gamma"), name_matches("gamma", "*.gamma")
    (True, True)
    >>> name_matches("vit.cls_token", "cls_token"), name_matches("vit.0", "0")
    (True, False)
    """
    if pattern.isidentifier():
        return name.rpartition(".")[2] == pattern
    return fnmatchcase(name, pattern) or fnmatchcase("." + name, pattern)


def shared_modules(module: nn.Module, share: Sequence[Share]) -> set[nn.Module]:
    """All modules that stay common: those that `share` names, and what is inside of them."""
    kept: set[nn.Module] = set()
    for name, part in module.named_modules(remove_duplicate=False):
        if any(name_matches(name, e) if isinstance(e, str) else isinstance(part, e) for e in share):
            kept.update(part.modules())
    return kept


def is_shared_parameter(name: str, share: Sequence[Share]) -> bool:
    return any(isinstance(entry, str) and name_matches(name, entry) for entry in share)


def unmatched_entries(module: nn.Module, share: Sequence[Share]) -> list[str]:
    """The names in `share` that match nothing in `module`, which may be spelling mistakes."""
    names = [name for name, _ in module.named_modules(remove_duplicate=False)]
    names += [name for name, _ in module.named_parameters(remove_duplicate=False)]
    return [e for e in share if isinstance(e, str) and not any(name_matches(name, e) for name in names)]
