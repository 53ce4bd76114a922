"""Tables as arrays: rows of (member, example) become (M, N, C), labels become class numbers."""

from collections.abc import Mapping

import numpy as np

from calmix.errors import InputError
from calmix.prediction_files.contents import Arrays, NumpyArray, kind_of
from calmix.prediction_files.layout import Layout, Table, label_texts

BOOLEANS = {"false": 0, "true": 1}


def read_table(table: Table, layout: Layout, values: str | None) -> Arrays:
    """The arrays of a table whose columns are known."""
    others = {role: getattr(layout, role) for role in ("label", "id", "member")}
    columns = {role: table.column(name) for role, name in others.items() if name is not None}
    groups = {name: table.column(column) for name, column in layout.groups.items()}
    if layout.positive:
        kind = values or layout.kind or "probs"
        p = table.matrix(layout.classes)[:, 0]
        numbers = p if kind == "probs" else np.stack([np.zeros_like(p), p], axis=1)
        if kind == "probs":
            numbers = _both(table.source, layout.classes[0], p)
    elif layout.vector:
        kind = kind_of(table.source, layout.kind, values, "the column's name")
        numbers = table.lists(layout.classes[0])
    else:
        kind = kind_of(table.source, layout.kind, values, "a table")
        numbers = table.matrix(layout.classes)
    if not len(numbers):
        raise InputError(f"{table.source}: no rows after the header")
    return _arrange(table.source, kind, layout, numbers, columns, groups)


def _both(source: str, name: str, p: NumpyArray) -> NumpyArray:
    wrong = ~((p >= 0) & (p <= 1))
    if wrong.any():
        i = int(wrong.argmax())
        raise InputError(
            f"{source}: {p[i]} in column {name!r}, row {i}, is no probability; if these are logits, say "
            'values="logits"'
        )
    return np.stack([1 - p, p], axis=1)


def _arrange(
    source: str,
    kind: str,
    layout: Layout,
    table: NumpyArray,
    columns: Mapping[str, NumpyArray],
    groups: Mapping[str, NumpyArray],
) -> Arrays:
    """Rows of (member, example) as (M, N, C), every member's examples in the order of the first one's."""
    if table.ndim == 3:  # lists of lists hold the members
        table = np.swapaxes(table, 0, 1)
    labels, ids = columns.get("label"), columns.get("id")
    if labels is not None:
        labels = label_numbers(source, labels, layout, table.shape[-1])
    if "member" not in columns:
        return Arrays(kind, table, labels, ids, dict(groups), layout.names)
    if table.ndim == 3:
        raise InputError(f"{source}: has a column {layout.member!r}, and the lists hold members already")
    rows = _rows_of_members(source, columns["member"].astype(str), ids)
    for name, column in (("label", labels), *groups.items()):
        if column is not None and (differs := (column[rows] != column[rows[0]]).any(0)).any():
            raise InputError(
                f"{source}: the members disagree on the {name} of example {int(differs.argmax())}"
            )
    first = rows[0]
    return Arrays(
        kind,
        table[rows],
        None if labels is None else labels[first],
        None if ids is None else ids[first],
        {name: column[first] for name, column in groups.items()},
        layout.names,
    )


def _rows_of_members(source: str, member: NumpyArray, ids: NumpyArray | None) -> NumpyArray:
    """Row numbers (M, N) in the table; members in the order in which they appear."""
    _, begins, place = np.unique(member, return_index=True, return_inverse=True)
    order = np.argsort(begins[place], kind="stable")
    counts = np.bincount(place)[np.argsort(begins)]
    if len(set(counts.tolist())) > 1:
        named = zip(member[np.sort(begins)].tolist(), counts.tolist(), strict=True)
        shown = ", ".join(f"{name}: {count}" for name, count in list(named)[:8])
        raise InputError(f"{source}: every member needs one row per example; rows per member: {shown}")
    rows = order.reshape(len(counts), -1)
    if ids is None:
        return rows
    back = np.argsort(np.argsort(ids[rows[0]], kind="stable"), kind="stable")
    matched = [r[np.argsort(ids[r], kind="stable")][back] for r in rows]
    for r in matched:
        if (wrong := ids[r] != ids[matched[0]]).any():
            missing = str(ids[matched[0]][int(wrong.argmax())])
            raise InputError(f"{source}: member {member[r[0]]} must have one row with the id {missing!r}")
    return np.stack(matched)


def label_numbers(source: str, labels: NumpyArray, layout: Layout, num_classes: int) -> NumpyArray:
    """Labels as class numbers: the names of classes or of their columns, numbers from 0, or booleans."""
    if layout.names is None and labels.dtype.kind in "iub":
        return labels.astype(np.int64) if labels.dtype.kind == "b" else labels
    values, text_of = label_texts(labels)
    different = set(text_of.values())
    names = layout.names or tuple(map(str, range(num_classes)))
    for known in (names, layout.classes):
        number = {name: i for i, name in enumerate(known)}
        if len(number) == num_classes and different <= number.keys():
            number_of = {value: number[text] for value, text in text_of.items()}
            return np.fromiter(map(number_of.__getitem__, values), dtype=np.int64, count=len(values))
    if num_classes == 2 and all(text.lower() in BOOLEANS for text in different):
        return np.array([BOOLEANS[text_of[value].lower()] for value in values])
    return np.array([_label_number(source, row, text_of[value], names) for row, value in enumerate(values)])


def _label_number(source: str, row: int, text: str, names: tuple[str, ...]) -> int:
    try:
        number = int(text)
    except ValueError:
        raise InputError(
            f"{source}: label {text!r} of row {row} is neither a number nor a class ({', '.join(names[:12])})"
        ) from None
    if abs(number) >= 2**63:
        raise InputError(f"{source}: label {text[:40]} of row {row} is outside 0..{len(names) - 1}")
    return number
