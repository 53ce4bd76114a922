"""Which column of a table is what: by the names that the user gave, or by rules that never guess."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from calmix.errors import InputError, one_of
from calmix.prediction_files.contents import Columns, NumpyArray

USUAL = {"label": ("label", "labels"), "id": ("id", "ids"), "member": ("member",)}
GROUP = "group_"
WHOLE = re.compile(r"-?\d+\.0")
PREFIX = re.compile(r"([A-Za-z][^_\-.: ]*[_\-.: ])(.+)|([A-Za-z]+)(\d+)")  # prob_cat, p.0; class0
PREFIX_KINDS = {"probs": ("p", "prob", "probs", "probability", "proba"), "logits": ("logit", "logits")}
VECTORS = ("logits", "probs")  # columns that hold a list of numbers each


class Table(Protocol):
    """A table as each format reads it: columns by name, whole."""

    source: str
    names: list[str]

    def is_number(self, name: str) -> bool: ...

    def is_list(self, name: str) -> bool: ...

    def column(self, name: str) -> NumpyArray:
        """Strings, or numbers, (N,)."""
        ...

    def matrix(self, names: Sequence[str]) -> NumpyArray:
        """Columns of numbers (N, C)."""
        ...

    def lists(self, name: str) -> NumpyArray:
        """A column of lists (N, C)."""
        ...


@dataclass(frozen=True)
class Layout:
    """The columns of a table; `kind` is what the classes' names say of their values."""

    classes: tuple[str, ...]
    names: tuple[str, ...] | None = None  # None: the classes are numbers from 0
    kind: str | None = None
    label: str | None = None
    id: str | None = None
    member: str | None = None
    groups: dict[str, str] = field(default_factory=dict)
    positive: bool = False
    vector: bool = False

    @property
    def needed(self) -> list[str]:
        """Every column that is read."""
        others = (self.label, self.id, self.member, *self.groups.values())
        return list(dict.fromkeys([*self.classes, *(name for name in others if name is not None)]))


def find_layout(table: Table, options: Columns) -> Layout:
    """The columns of a table.

    Without `classes`, those of the classes are named 0..C-1, or as the labels are, or have one prefix in
    common (prob_cat, p_0). Any other column of numbers is refused: it could be a class.
    """
    if len(set(table.names)) != len(table.names):
        seen: set[str] = set()
        twice = next(name for name in table.names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError(f"{table.source}: two columns are named {twice!r}")
    columns = set(table.names)
    found: dict[str, str | None] = {}
    for role, usual in USUAL.items():
        name = getattr(options, role)
        if name is not None:
            _require(table, role, name)
        found[role] = name or next((name for name in usual if name in columns), None)
    for name in options.ignore:
        _require(table, "ignore", name)
    groups = _groups(table, options, columns)
    special = {*found.values(), *groups.values(), *options.ignore, *_usual_groups(table)}
    rest = [name for name in table.names if name not in special]
    roles: dict[str, Any] = {**found, "groups": groups}
    if options.positive is not None:
        return _positive(table, options, roles)
    if options.classes is not None:
        for name in options.classes:
            _require(table, "classes", name)
        if len(options.classes) < 2:
            raise InputError(f"{table.source}: classes must name at least two columns")
        return _layout(options.classes, roles)
    vectors = [name for name in VECTORS if name in rest and table.is_list(name)]
    if len(vectors) > 1:
        raise InputError(f"{table.source}: has both 'logits' and 'probs'; ignore='probs' leaves one out")
    if vectors:
        return Layout((vectors[0],), kind=vectors[0], vector=True, **roles)
    classes = _infer(table, rest, found["label"])
    _refuse_others(table, rest, classes)
    return _layout(classes, roles)


def _require(table: Table, role: str, name: str) -> None:
    if name not in set(table.names):
        one_of(f"column {role}= in {table.source}", name, table.names[:1000])


def _groups(table: Table, options: Columns, columns: set[str]) -> dict[str, str]:
    if not options.group:
        return {name.removeprefix(GROUP): name for name in _usual_groups(table) if name not in options.ignore}
    groups = {}
    for name in options.group:
        column = name if name in columns else GROUP + name
        if column not in columns:
            _require(table, "group", name)
        groups[name] = column
    return groups


def _usual_groups(table: Table) -> list[str]:
    return [name for name in table.names if name in ("group", "groups") or name.startswith(GROUP)]


def _infer(table: Table, rest: list[str], label: str | None) -> tuple[str, ...]:
    numbered = [name for name in rest if name.isascii() and name.isdecimal()]
    if len(numbered) > 1 and sorted(map(int, numbered)) == list(range(len(numbered))):
        return tuple(sorted(numbered, key=int))
    numeric = [name for name in rest if table.is_number(name)]
    if label is not None and numeric:
        labels = different_labels(table.column(label))
        named = [name for name in numeric if name in labels]
        if len(named) > 1 and len(named) >= len(labels & set(numeric)) and labels <= set(named):
            return tuple(named)
    if len(numbered) > 1:
        raise InputError(
            f"{table.source}: columns named by numbers must number the classes from 0; got {numbered[:12]}; "
            "classes=[...] names those of the classes in order"
        )
    if classes := _with_prefix(table, rest, numeric):
        return classes
    usual = [*USUAL["label"], "id", "member", "group"]
    shown = ", ".join(map(repr, table.names[:12])) or "none"
    raise InputError(
        f"{table.source}: needs one column per class, named 0..C-1, as the labels are, or with one prefix "
        f"(prob_cat), besides {', '.join(usual)}; the columns are {shown}; "
        "classes=[...] names those of the classes, positive='...' that of P(y = 1)"
    )


def _with_prefix(table: Table, rest: list[str], numeric: list[str]) -> tuple[str, ...] | None:
    """Two or more columns with one prefix, and no other prefix that could be meant."""
    numbers = set(numeric)
    groups: dict[str, list[str]] = {}
    for name in rest:
        prefix, _ = split_prefix(name)
        if prefix and (name in numbers or prefix_kind(prefix)):
            groups.setdefault(prefix, []).append(name)
    several = {prefix: names for prefix, names in groups.items() if len(names) > 1}
    if len(several) > 1:
        prefixes = " and ".join(map(repr, list(several)[:4]))
        raise InputError(
            f"{table.source}: columns begin with {prefixes}, and either could be the classes: "
            "classes=[...] names those that are"
        )
    for names in several.values():
        ends = [split_prefix(name)[1] for name in names]
        if all(end.isascii() and end.isdecimal() for end in ends):
            if sorted(map(int, ends)) != list(range(len(ends))):
                raise InputError(
                    f"{table.source}: columns named by numbers must number the classes from 0; got "
                    f"{names[:12]}; classes=[...] names those of the classes in order"
                )
            names = sorted(names, key=lambda name: int(split_prefix(name)[1]))
        return tuple(names)
    return None


def split_prefix(name: str) -> tuple[str, str]:
    """
    >>> split_prefix("prob_hot_dog"), split_prefix("p0"), split_prefix("cat")
    (('prob_', 'hot_dog'), ('p', '0'), ('', 'cat'))
    """
    match = PREFIX.fullmatch(name)
    if not match:
        return "", name
    return (match[1], match[2]) if match[1] else (match[3], match[4])


def prefix_kind(prefix: str) -> str | None:
    """What a prefix says of the values: `prob_` are probs."""
    word = prefix.rstrip("_-.: ").lower()
    return next((kind for kind, words in PREFIX_KINDS.items() if word in words), None)


def _refuse_others(table: Table, rest: list[str], classes: tuple[str, ...]) -> None:
    known = set(classes)
    for name in rest:
        if name not in known and table.is_number(name):
            raise InputError(
                f"{table.source}: column {name!r} holds numbers, but is not named like the classes "
                f"{', '.join(map(repr, classes[:4]))}{', ...' if len(classes) > 4 else ''}: ignore={name!r} "
                f"leaves it out, group={name!r} makes it a group, and classes=[...] names all classes"
            )


def _layout(classes: Sequence[str], roles: dict[str, Any]) -> Layout:
    """Class names are the columns' names without their common prefix; numbers from 0 are no names."""
    parts = [split_prefix(name) for name in classes]
    shared = len({prefix for prefix, _ in parts}) == 1 and bool(parts[0][0])
    names = tuple(end for _, end in parts) if shared else tuple(classes)
    numbered = names == tuple(map(str, range(len(names))))
    kind = prefix_kind(parts[0][0]) if shared else None
    return Layout(tuple(classes), None if numbered else names, kind, **roles)


def _positive(table: Table, options: Columns, roles: dict[str, Any]) -> Layout:
    assert options.positive is not None
    _require(table, "positive", options.positive)
    label, names = roles["label"], options.classes
    if names is not None and len(names) != 2:
        raise InputError(f"{table.source}: with positive, classes are two names: (negative, positive)")
    if names is None and isinstance(label, str):
        names = _two_names(table, options.positive, label)
    prefix, _ = split_prefix(options.positive)
    kind = "logits" if prefix_kind(prefix) == "logits" else None
    return Layout((options.positive,), names, kind, positive=True, **roles)


def _two_names(table: Table, positive: str, label: str) -> tuple[str, str] | None:
    """The two names among the labels, the positive one last; None where they are numbers or booleans."""
    labels = sorted(different_labels(table.column(label)))
    if {text.lower() for text in labels} <= {"0", "1", "true", "false"}:
        return None
    matches = [name for name in labels if name in (positive, split_prefix(positive)[1])]
    if len(labels) == 2 and len(matches) == 1:
        (negative,) = (name for name in labels if name != matches[0])
        return negative, matches[0]
    raise InputError(
        f"{table.source}: the labels are {', '.join(map(repr, labels[:6]))}: which of them is positive is "
        "not known; classes=[negative, positive] names both"
    )


def label_texts(labels: NumpyArray) -> tuple[list[str], dict[str, str]]:
    """Labels as they are written, and the text of each different one: whole floats without their point.

    >>> import numpy as np
    >>> label_texts(np.array([1.0, 2.0])), label_texts(np.array(["1.0", "cat"]))[1]["1.0"]
    ((['1', '2'], {'1': '1', '2': '2'}), '1')
    """
    if labels.dtype.kind == "U":  # from a text file: few texts, many rows
        values = labels.tolist()
        return values, {text: _without_point(text) for text in set(values)}
    if labels.dtype.kind == "f":
        values = [str(int(v)) if v == v // 1 and abs(v) < 2**53 else str(v) for v in labels.tolist()]
    else:
        values = [_without_point(str(value)) for value in labels.tolist()]
    return values, {text: text for text in dict.fromkeys(values)}


def different_labels(labels: NumpyArray) -> set[str]:
    """The texts that occur among labels."""
    return set(label_texts(labels)[1].values())


def _without_point(text: str) -> str:
    return text.removesuffix(".0") if WHOLE.fullmatch(text) else text
