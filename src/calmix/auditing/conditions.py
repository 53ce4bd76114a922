"""Conditions on an audit's numbers, for pipelines: `ece > 0.05`. Nothing is evaluated as code."""

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calmix.errors import InputError, one_of

OPERATORS = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
FORM = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*")


@dataclass(frozen=True)
class Condition:
    """`name` is a key of the audit's JSON, with dots into objects and lists: `pool.gap`, `members.0.ece`."""

    name: str
    operator: str
    number: float

    def holds(self, numbers: Mapping[str, Any]) -> bool:
        return bool(OPERATORS[self.operator](self.value(numbers), self.number))

    def value(self, numbers: Mapping[str, Any]) -> float:
        values = _flat(numbers)
        one_of("name in a condition", self.name, values)
        return values[self.name]

    def __str__(self) -> str:
        return f"{self.name} {self.operator} {self.number:g}"


def parse_condition(text: str) -> Condition:
    """NAME OP NUMBER.

    >>> parse_condition("pool.gap >= 0.02")
    Condition(name='pool.gap', operator='>=', number=0.02)
    """
    match = FORM.fullmatch(text)
    try:
        if match:
            return Condition(match[1], match[2], float(match[3]))
    except ValueError:
        pass
    raise InputError(
        f"condition {text!r}: give a name, one of {' '.join(OPERATORS)}, and a number, such as 'ece > 0.05'"
    )


def _flat(value: Any, path: str = "") -> dict[str, float]:
    """Every number of nested objects and lists, by its dotted name."""
    if isinstance(value, int | float):
        return {path: value}
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return {
        name: number
        for key, inner in items
        for name, number in _flat(inner, f"{path}.{key}" if path else str(key)).items()
    }
