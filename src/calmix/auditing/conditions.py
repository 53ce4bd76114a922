"""Conditions on an audit's numbers, for pipelines: `ece > 0.05`. Nothing is evaluated as code."""

import difflib
import math
import operator
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from calmix.auditing.verdict import Verdict
from calmix.errors import InputError, one_of

OPERATORS = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
BRACKET = r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]"  # a name that may itself hold brackets
NAME = r"[A-Za-z_](?:[\w.]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*"
FORM = re.compile(rf"\s*(?:abs\(\s*({NAME})\s*\)|({NAME}))\s*(<=|>=|==|!=|<|>)\s*(\S(?:.*\S)?)\s*")
STEP = re.compile(rf"{BRACKET}|\.?([^.\[\]]+)")
ALIASES = {"gap": "pool.gap", "gap_interval": "pool.gap_interval"}
ROW_NAMES = ("name", "method")  # by which a row of a list is found: classes[cat], remedies[temperature]
SUGGESTED = 5_000  # names among which the nearest is searched


@dataclass(frozen=True)
class Condition:
    """`name` is a key of the audit's JSON: `pool.gap`, `members[0].gap`, `classes[cat].gap`.

    `number` is what it is compared with; for the key `verdict`, a word.
    """

    name: str
    operator: str
    number: float | str
    absolute: bool = False

    def holds(self, numbers: Mapping[str, Any]) -> bool:
        return bool(OPERATORS[self.operator](self.value(numbers), self.number))

    def value(self, numbers: Mapping[str, Any]) -> Any:
        value = _resolve(numbers, self.name)
        if isinstance(self.number, str):
            if not isinstance(value, str):
                raise InputError(f"condition {self}: {self.name} is a number; compare it with a number")
            return value
        if value is None or (isinstance(value, float) and math.isnan(value)):
            raise InputError(f"condition {self}: {self.name} has no value here, so it cannot be decided")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"condition {self}: {self.name} is not a number, but {str(value)[:60]!r}")
        return abs(value) if self.absolute else value

    def check(self, numbers: Mapping[str, Any], rows: Collection[str]) -> None:
        """Refuse a name that such numbers do not have; `rows` are the names of the rows of `classes`.

        The numbers may be those of a few examples, which lack some classes and groups.
        """
        found = re.match(rf"(classes|groups){BRACKET}", self.name)
        there = numbers.get(found[1]) if found else None
        if found and found[1] == "classes":
            one_of("class in a condition", found[2], rows)
        if found and there:
            _resolve(numbers, self.name.replace(f"[{found[2]}]", f"[{there[0].get('name')}]", 1))
        else:
            _resolve(numbers, self.name)

    def __str__(self) -> str:
        name = f"abs({self.name})" if self.absolute else self.name
        value = self.number if isinstance(self.number, str) else f"{self.number:g}"
        return f"{name} {self.operator} {value}"


def parse_condition(text: str) -> Condition:
    """NAME OP NUMBER, abs(NAME) OP NUMBER, or NAME == WORD.

    >>> parse_condition("pool.gap >= 0.02")
    Condition(name='pool.gap', operator='>=', number=0.02, absolute=False)
    >>> print(parse_condition("verdict != calibrated"))
    verdict != calibrated
    """
    match = FORM.fullmatch(text)
    if not match:
        raise InputError(
            f"condition {text!r}: give a name, one of {' '.join(OPERATORS)}, and a number, "
            "such as 'ece > 0.05'"
        )
    name, sign, right = match[1] or match[2], match[3], match[4]
    absolute = match[1] is not None
    if name == "verdict" and not absolute:
        word = right.strip("'\"")
        if sign not in ("==", "!="):
            raise InputError(f"condition {text!r}: a verdict is compared with == or !=")
        one_of("verdict", word, get_args(Verdict))
        return Condition(name, sign, word)
    try:
        number = float(right)
    except ValueError:
        is_word = right.strip("'\"") in get_args(Verdict)
        if not absolute and (is_word or difflib.get_close_matches(name, ["verdict"])):
            raise InputError(
                f"condition {text!r}: {name!r} is not compared with a word; did you mean 'verdict'?"
            ) from None
        raise InputError(
            f"condition {text!r}: {right!r} is not a number; give one, such as 'ece > 0.05'"
        ) from None
    if math.isnan(number):
        raise InputError(
            f"condition {text!r}: nothing compares with nan; give a number, such as 'ece > 0.05'"
        )
    return Condition(name, sign, number, absolute)


def _resolve(numbers: Mapping[str, Any], name: str) -> Any:
    """The value of a name; an unknown one answers with the nearest."""
    for candidate in (name, ALIASES.get(name)):
        if candidate is None:
            continue
        try:
            return _walk(numbers, candidate)
        except LookupError:
            pass
    names = [known for _, known in zip(range(SUGGESTED), _names(numbers), strict=False)]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else f"; names are {', '.join(names[:12])}, ..."
    raise InputError(f"unknown name in a condition {name!r}{hint}")


def _walk(value: Any, name: str) -> Any:
    for bracket, key in STEP.findall(name):
        step = bracket or key
        if isinstance(value, Mapping):
            value = value[step]
        elif isinstance(value, list | tuple):
            value = _row(value, step)
        else:
            raise LookupError(step)
    if isinstance(value, Mapping | list | tuple):
        raise LookupError(name)
    return value


def _row(rows: Any, step: str) -> Any:
    for row in rows:
        if isinstance(row, Mapping) and step in [row.get(key) for key in ROW_NAMES]:
            return row
    if step.isdecimal():
        return rows[int(step)]
    raise LookupError(step)


def _names(value: Any, path: str = "") -> Iterator[str]:
    """Every name that a condition can have."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _names(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            named = next((inner[k] for k in ROW_NAMES if k in inner), i) if isinstance(inner, Mapping) else i
            yield from _names(inner, f"{path}[{named}]")
    elif path == "verdict" or value is None or type(value) in (int, float):
        yield path
