"""Typed records as JSON: dataclasses to plain values and back, checked."""

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from calmix import files
from calmix.errors import InputError, one_of

Record = TypeVar("Record")
WORDS = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


def from_plain(kind: type[Record], value: Any, where: str) -> Record:
    """The record that parsed JSON stands for; `where` begins the message that refuses a wrong type.

    A whole number may stand for any number, a list for a tuple, null for a number that is not finite. A key
    that is no field is refused with the nearest one that is.

    >>> from calmix.progress import Progress
    >>> from_plain(Progress, {"task": "a", "done": 1, "total": 2}, "example").done
    1.0
    """
    try:
        return typing.cast(Record, _decode(kind, value, where))
    except RecursionError:
        raise InputError(f"{where} is nested too deeply") from None


def typed_fields(record: Any) -> dict[str, Any]:
    """The fields of a record as their types have them, by the rules of `from_plain`."""
    fields = _fields(type(record))  # type: ignore[arg-type]
    return {name: _decode(kind, getattr(record, name), name) for name, kind in fields.items()}


@functools.cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


@functools.cache
def _shape(kind: Any) -> tuple[bool, Any, tuple[Any, ...]]:
    """Whether a type is a record, what it is made of, and of which types."""
    return dataclasses.is_dataclass(kind), get_origin(kind), get_args(kind)


def _decode(kind: Any, value: Any, where: str) -> Any:
    if kind is Any or (type(value) is kind and kind in WORDS):
        return value
    is_record, origin, arguments = _shape(kind)
    if is_record:
        if isinstance(value, kind):
            return value
        if not isinstance(value, dict):
            raise InputError(f"{where} must be an object, got {_short(value)}")
        fields: dict[str, Any] = _fields(kind)
        for key in value:
            if key not in fields:
                one_of(f"key of {where}", key, sorted(fields))
        decoded = {key: _decode(fields[key], inner, f"{where}.{key}") for key, inner in value.items()}
        try:
            return kind(**decoded)
        except TypeError:
            if missing := sorted(_required(kind) - value.keys()):
                raise InputError(f"{where} lacks {', '.join(missing)}") from None
            raise
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        (kind,) = (argument for argument in arguments if argument is not type(None))
        return _decode(kind, value, where)
    if origin is tuple and isinstance(value, list | tuple):
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        if len(kinds) == len(value):
            return tuple(
                _decode(inner, item, f"{where}[{i}]")
                for i, (inner, item) in enumerate(zip(kinds, value, strict=True))
            )
    if origin in (dict, Mapping) and isinstance(value, dict):
        make = int if arguments[0] is int else str
        try:
            return {make(key): _decode(arguments[1], inner, f"{where}.{key}") for key, inner in value.items()}
        except ValueError as error:
            raise error if isinstance(error, InputError) else InputError(f"{where}: {error}") from None
    if kind is float and value is None:
        return math.nan
    if kind is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise InputError(
                f"{where} must be {WORDS[float]}, got one of {value.bit_length()} bits"
            ) from None
    if type(value) is not kind:
        raise InputError(f"{where} must be {WORDS.get(kind, 'a list or an object')}, got {_short(value)}")
    return value


def _required(kind: Any) -> set[str]:
    missing = dataclasses.MISSING
    return {f.name for f in dataclasses.fields(kind) if f.default is missing and f.default_factory is missing}


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or of levels
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """JSON that every reader takes, of records and plain values: a number that is not finite is null.

    >>> to_json({"nll": math.inf})
    '{\\n  "nll": null\\n}'
    """
    separators = (",", ":") if indent is None else None
    return json.dumps(to_plain(value), indent=indent, separators=separators, allow_nan=False)


def to_plain(value: Any) -> Any:
    """Dictionaries, lists and numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path} cannot be read as JSON: {reason or type(error).__name__}") from None


def write_json(path: Path, value: Any, *, indent: int | None = 2) -> None:
    with files.replacing(path) as file:
        file.write((to_json(value, indent=indent) + "\n").encode())
