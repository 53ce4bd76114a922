"""`.jsonl` files: a row a line, or the sample logs of a language-model evaluation harness."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from calmix.errors import InputError
from calmix.memory import check_fits
from calmix.prediction_files.contents import Arrays, Columns, NumpyArray, kind_of
from calmix.prediction_files.layout import find_layout
from calmix.prediction_files.sources import Source
from calmix.prediction_files.tables import read_table

MEMORY_PER_BYTE = 4  # of a file of JSON: Python's numbers and the arrays


def read_lines(source: Source, values: str | None, options: Columns) -> Arrays:
    """One object a line; its keys are columns. "logits" or "probs" may hold a list, or an object by class."""
    check_fits(source.name, MEMORY_PER_BYTE * source.size)
    rows: list[dict[str, Any]] = []
    with source.text() as text:
        for number, line in enumerate(text, start=1):
            if line.strip():
                rows.append(_row(source.name, number, line))
    if not rows:
        raise InputError(f"{source.name}: no rows: there must be an object on each line")
    if "doc_id" in rows[0] and ("resps" in rows[0] or "filtered_resps" in rows[0]):
        return _harness(source.name, rows, values, options)
    return _table(source.name, rows, values, options)


def _row(source: str, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}, line {number}: not JSON: {error or type(error).__name__}") from None
    if not isinstance(row, dict):
        raise InputError(f"{source}, line {number}: must be an object, got {line.strip()[:60]!r}")
    return row


def _table(source: str, rows: list[dict[str, Any]], values: str | None, options: Columns) -> Arrays:
    for kind in ("logits", "probs"):
        if isinstance(rows[0].get(kind), dict):
            prefix = {"logits": "logit_", "probs": "prob_"}[kind]
            rows = [_flat(source, i, row, kind, prefix) for i, row in enumerate(rows)]
    table = JsonTable(source, rows)
    return read_table(table, find_layout(table, options), values)


def _flat(source: str, i: int, row: dict[str, Any], kind: str, prefix: str) -> dict[str, Any]:
    inner = row.get(kind)
    if not isinstance(inner, dict):
        raise InputError(f"{source}: {kind!r} of row {i} must be an object by class, like that of row 0")
    return {key: value for key, value in row.items() if key != kind} | {
        prefix + k: v for k, v in inner.items()
    }


class JsonTable:
    """Rows of JSON objects with the same keys."""

    def __init__(self, source: str, rows: list[dict[str, Any]]) -> None:
        self.source, self.rows = source, rows
        self.names = list(rows[0])

    def is_number(self, name: str) -> bool:
        return all(_is_number(row.get(name)) for row in self.rows[:100])

    def is_list(self, name: str) -> bool:
        return isinstance(self.rows[0].get(name), list)

    def column(self, name: str) -> NumpyArray:
        values = self._values(name)
        for i, value in enumerate(values):
            if value is None or isinstance(value, dict | list):
                raise InputError(
                    f"{self.source}: {name!r} of row {i} must be text or a number, got {value!r:.40}"
                )
        if all(_is_number(value) for value in values):
            return _array(self.source, name, values)
        if all(isinstance(value, bool) for value in values):
            return np.array(values)
        return np.array([str(value) for value in values])

    def matrix(self, names: Sequence[str]) -> NumpyArray:
        return np.stack([self._numbers(name) for name in names], axis=1)

    def lists(self, name: str) -> NumpyArray:
        try:
            return np.asarray(np.array(self._values(name), dtype=np.float64))
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"{self.source}: {name!r} must be lists of numbers, of the same length in each row"
            ) from None

    def _numbers(self, name: str) -> NumpyArray:
        values = self._values(name)
        for i, value in enumerate(values):
            if not _is_number(value):
                raise InputError(f"{self.source}: {name!r} of row {i} must be a number, got {value!r:.60}")
        return _array(self.source, name, values).astype(np.float64)

    def _values(self, name: str) -> list[Any]:
        for i, row in enumerate(self.rows):
            if name not in row:
                raise InputError(f"{self.source}: row {i} has no {name!r}, which row 0 has")
        return [row[name] for row in self.rows]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _array(source: str, name: str, values: list[Any]) -> NumpyArray:
    try:
        whole = all(isinstance(value, int) for value in values)
        return np.array(values, dtype=np.int64 if whole else np.float64)
    except OverflowError:
        raise InputError(f"{source}: {name!r} holds a number that is too large") from None


def _harness(source: str, rows: list[dict[str, Any]], values: str | None, options: Columns) -> Arrays:
    """Sample logs of the lm-evaluation-harness: the log-likelihoods of a question's options are its logits.

    Options become classes by position; a question with fewer options than others has probability 0 for those
    that it lacks. The harness writes numbers as text, and a line for each filter: the first one is read.
    """
    if given := options.given("classes", "positive", "member", "label", "id"):
        raise InputError(f"{source}: {given[0]} names a column of a table, and this is a log of a harness")
    kind = kind_of(source, "logits", values, "a log of a harness")
    rows = [row for row in rows if row.get("filter") == rows[0].get("filter")]
    scores = [_likelihoods(source, row) for row in rows]
    labels = [_target(source, row, len(s)) for row, s in zip(rows, scores, strict=True)]
    logits = np.full((len(rows), max(2, *map(len, scores))), -np.inf)
    for i, row_scores in enumerate(scores):
        logits[i, : len(row_scores)] = row_scores
    known = None if any(label is None for label in labels) else np.array(labels)
    ids = np.array([str(row.get("doc_id")) for row in rows])
    groups = {name: JsonTable(source, rows).column(name) for name in options.group}
    return Arrays(kind, logits, known, ids, groups)


def _likelihoods(source: str, row: dict[str, Any]) -> list[float]:
    answers = row.get("filtered_resps") or row.get("resps")
    doc = row.get("doc_id")
    if not isinstance(answers, list) or len(answers) < 2:
        raise InputError(f"{source}: document {doc} has no list of at least two options")
    scores = []
    for option in answers:
        while isinstance(option, list) and option:  # [[score, is_greedy]] or [score, is_greedy]
            option = option[0]
        try:
            scores.append(float(option))
        except (TypeError, ValueError):
            raise InputError(
                f"{source}: document {doc} holds {option!r:.60} where the log-likelihood of an option was "
                "expected: only multiple-choice tasks have probabilities"
            ) from None
    return scores


def _target(source: str, row: dict[str, Any], count: int) -> int | None:
    """The number of the right option: `target` is that, or the option's text."""
    target = row.get("target")
    if target is None:
        return None
    text = str(target).strip()
    number = int(text) if text.lstrip("-").isdecimal() and len(text) < 10 else None
    if number is None:
        matches = [i for i, option in enumerate(_options(row)) if option == text]
        if len(matches) != 1 and len(text) == 1 and "A" <= text <= chr(ord("A") + count - 1):
            matches = [ord(text) - ord("A")]
        if len(matches) != 1:
            raise InputError(
                f"{source}: target {text[:60]!r} of document {row.get('doc_id')} is neither the number of an "
                "option nor the text of one"
            )
        number = matches[0]
    if not 0 <= number < count:
        raise InputError(
            f"{source}: target {number} of document {row.get('doc_id')} is outside its {count} options"
        )
    return number


def _options(row: dict[str, Any]) -> list[str]:
    """The texts of the options: the continuations that were scored."""
    arguments = row.get("arguments")
    if isinstance(arguments, dict):
        arguments = [list(a.values()) if isinstance(a, dict) else a for a in arguments.values()]
    if not isinstance(arguments, list):
        return []
    return [str(a[1]).strip() for a in arguments if isinstance(a, list) and len(a) > 1]
