"""Examples and classes of two predictions brought into the same order."""

import numpy as np
import torch

from calmix.errors import InputError
from calmix.predictions import Predictions


def require_labels(predictions: Predictions, name: str) -> None:
    if predictions.labels is None:
        raise InputError(f"{name} has no labels: without them there is nothing to judge")


def match_classes(a: Predictions, b: Predictions, names: tuple[str, str]) -> Predictions:
    """b with its classes in the order of a's."""
    if a.logits.shape[2] != b.logits.shape[2]:
        sizes = f"{a.logits.shape[2]} classes, {names[1]} {b.logits.shape[2]}"
        raise InputError(f"{names[0]} has {sizes}: only predictions of the same classes can be compared")
    if not a.classes or not b.classes or a.classes == b.classes:
        return b
    if set(a.classes) != set(b.classes):
        only = next(name for name in a.classes if name not in b.classes)
        raise InputError(f"{names[0]} has a class {only!r}, which {names[1]} has not: their classes differ")
    order = [b.classes.index(name) for name in a.classes]
    number = torch.empty(len(order), dtype=torch.long)
    number[torch.tensor(order)] = torch.arange(len(order))
    labels = None if b.labels is None else number[b.labels]
    return Predictions(b.logits[..., order], labels, ids=b.ids, groups=b.groups, classes=a.classes)


def match_rows(a: Predictions, b: Predictions, names: tuple[str, str]) -> None:
    """Both must hold the same examples in the same order."""
    hint = "by_id=True matches them by id, paired=False compares different examples"
    if len(a) != len(b):
        raise InputError(f"{names[0]} has {len(a)} examples, {names[1]} {len(b)}: {hint}")
    if a.ids is not None and b.ids is not None:
        differ = a.ids.astype(str) != b.ids.astype(str)
        if differ.any():
            i = int(differ.argmax())
            raise InputError(f"{names[0]} and {names[1]} differ in the id of example {i}: {hint}")
    assert a.labels is not None
    assert b.labels is not None
    if not torch.equal(a.labels, b.labels):
        i = int((a.labels != b.labels).nonzero()[0, 0])
        raise InputError(f"{names[0]} and {names[1]} differ in the label of example {i}: {hint}")


def match_ids(a: Predictions, b: Predictions, names: tuple[str, str]) -> tuple[Predictions, Predictions, int]:
    """Both with the examples that they share, in the order of a's, and how many were left out."""
    ids = []
    for predictions, name in zip((a, b), names, strict=True):
        if predictions.ids is None:
            raise InputError(f"{name} has no ids to match by: name their column, or pair by row")
        texts = predictions.ids.astype(str)
        values, count = np.unique(texts, return_counts=True)
        if (count > 1).any():
            twice = str(values[count > 1][0])
            raise InputError(f"{name} has the id {twice!r} twice: ids must be unique to match by")
        ids.append(texts)
    place = {text: i for i, text in enumerate(ids[1].tolist())}
    rows = [(i, place[text]) for i, text in enumerate(ids[0].tolist()) if text in place]
    if not rows:
        raise InputError(f"{names[0]} and {names[1]} share no id: they hold different examples")
    ours, theirs = (np.array(column) for column in zip(*rows, strict=True))
    left_out = len(a) + len(b) - 2 * len(rows)
    a, b = a.take(ours), b.take(theirs)
    assert a.labels is not None
    assert b.labels is not None
    if not torch.equal(a.labels, b.labels):
        i = int((a.labels != b.labels).nonzero()[0, 0])
        raise InputError(f"{names[0]} and {names[1]} differ in the label of the id {str(ids[0][ours[i]])!r}")
    return a, b, left_out
