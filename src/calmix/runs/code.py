"""Code of the user's own that a recipe names: networks, data loaders and mixers.

`"file.py:make"` is a function in a file, `"package.module:make"` one that can be imported, and
`"<python>:make"` one that was given as an object, from a notebook say. A recipe holds the text and the
SHA-256 digest of the source: of the whole file, or of the object's own source. What the file imports, and
values that a function takes from outside of itself, are not part of the digest.

A recipe may come from somewhere else, so code is loaded only

- if it was given in this process (`given`), by an argument or a flag, or
- from a file whose digest is the recipe's, at an absolute path or an importable module, and never from inside
  a run folder.
"""

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from calmix.errors import InputError, one_of

PYTHON = "<python>"
_OBJECTS: dict[str, Callable[..., Any]] = {}  # what this process was given, by digest
_IMPORTED: dict[str, str] = {}  # digests of the modules that were imported here


@dataclass(frozen=True)
class Code:
    """A function of the user's own as a recipe has it; `path` is the absolute path of its file, or empty."""

    text: str
    digest: str
    path: str = ""


def is_code(text: str) -> bool:
    """Whether a text names a function of the user's own.

    >>> is_code("nets.py:make"), is_code("wide_resnet")
    (True, False)
    """
    place, _, name = text.rpartition(":")
    return bool(place) and name.isidentifier()


def given(what: str, value: str | Callable[..., Any]) -> Code:
    """Code that the user gives now: it is located, its source digested, and it may run from here on."""
    if not isinstance(value, str):
        return _given_object(what, value)
    place, _, name = value.rpartition(":")
    if place.endswith(".py"):
        path = Path(place).expanduser().resolve()
        text = f"{path.name}:{name}"
        if not path.is_file():
            raise InputError(f"{what} {value!r}: {path} does not exist")
    else:
        text = value
        path = _module_file(place, (*sys.path, os.getcwd())) or Path()
        if path == Path():
            raise InputError(
                f"{what} {value!r}: no module {place!r} is importable here; give file.py:{name}, or set "
                "PYTHONPATH"
            )
    code = Code(text, file_digest(path), str(path))
    remember(_key(code.digest, name), _load_file(what, code))
    return code


def remember(key: str, function: Callable[..., Any]) -> None:
    """Let `function` stand for a recipe's code in this process."""
    _OBJECTS[key] = function


def stand_in(what: str, code: Code, value: str | Callable[..., Any]) -> str:
    """Let code that the user gives now stand for a recipe's; the warning where its source is another."""
    new = given(what, value)
    remember(_key(code.digest, _name(code.text)), load(what, new))
    if new.digest == code.digest:
        return ""
    return f"the source of {what} {new.text} is not the one of the recipe ({code.text})"


def load(what: str, code: Code) -> Callable[..., Any]:
    """The function of a recipe, by the rules above."""
    name = _name(code.text)
    if function := _OBJECTS.get(_key(code.digest, name)):
        return function
    remedy = f"pass {what}= the function (or file.py:{name}) in this call"
    if code.text.startswith(PYTHON):
        raise InputError(
            f"{what} {name!r} was given as a Python object, which a recipe cannot hold: {remedy}; worker "
            f"processes need file.py:{name}"
        )
    path = Path(code.path)
    if not code.text.rpartition(":")[0].endswith(".py"):
        path = _module_file(code.text.rpartition(":")[0], sys.path) or path
    if not code.path or not path.is_absolute() or not path.is_file():
        raise InputError(f"{what} {code.text!r}: {code.path or 'its file'} is not on this machine; {remedy}")
    if any((folder / "recipe.json").exists() for folder in path.parents):
        raise InputError(
            f"{what} {code.text!r}: {path} lies in a run folder, from which no code runs; {remedy}"
        )
    if file_digest(path) != code.digest:
        raise InputError(
            f"{what} {code.text!r}: {path} has changed since the recipe was written; restore it, or {remedy}"
        )
    function = _load_file(what, Code(code.text, code.digest, str(path)))
    remember(_key(code.digest, name), function)
    return function


def file_digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def call(what: str, text: str, function: Callable[..., Any], **options: Any) -> Any:
    """Call code of the user's own; whatever it raises becomes one sentence."""
    with in_words(f"{what} {text}"):
        return function(**options)


@contextlib.contextmanager
def in_words(what: str, advice: str = "") -> Iterator[None]:
    """Turn an exception of the user's code into an `InputError` that says where it comes from."""
    try:
        yield
    except InputError as error:
        if advice and error.__cause__ is not None:  # of the user's code, already in words
            raise InputError(f"{what}: {error}{advice}") from error.__cause__
        raise
    except Exception as error:
        lines = str(error).splitlines() or [""]
        where = _last_place(error)
        raise InputError(f"{what} raised {type(error).__name__}: {lines[0]}{where}{advice}") from error


def _last_place(error: BaseException) -> str:
    """File and line of the innermost frame that is neither torch's nor calmix's."""
    place, trace = "", error.__traceback__
    ours = (os.sep + "torch" + os.sep, os.sep + "calmix" + os.sep, "<frozen")
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not any(part in file for part in ours):
            place = f" ({os.path.basename(file)}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _key(digest: str, name: str) -> str:
    return f"{digest}:{name}"


def _name(text: str) -> str:
    return text.rpartition(":")[2]


def _given_object(what: str, value: Any) -> Code:
    if not isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        raise InputError(
            f"{what} must be a function, a class, or a text like 'file.py:make', got {type(value).__name__}"
        )
    try:
        source = inspect.getsource(value)
    except (OSError, TypeError):
        raise InputError(
            f"the source of {what} {value.__qualname__!r} cannot be read: put it into a file, and give "
            "'file.py:name'"
        ) from None
    digest = hashlib.sha256(source.encode()).hexdigest()
    name = value.__name__ if value.__name__.isidentifier() else "function"  # a lambda has no name
    remember(_key(digest, name), value)
    return Code(f"{PYTHON}:{name}", digest)


def _module_file(name: str, search: tuple[str, ...] | list[str]) -> Path | None:
    """The file of a module, found without importing its packages."""
    locations: list[str] | None = list(search)
    spec = None
    for part in name.split("."):
        if locations is None:
            return None
        spec = PathFinder.find_spec(part, locations)
        if spec is None:
            return None
        locations = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin).resolve()


def _load_file(what: str, code: Code) -> Callable[..., Any]:
    place, _, name = code.text.rpartition(":")
    path = Path(code.path)
    with in_words(f"{what} {code.text}"), _importable(_root(place, path)):
        if place.endswith(".py"):
            module_name = f"calmix_own_{code.digest[:16]}"
            module = sys.modules.get(module_name)
            if module is None:
                spec = importlib.util.spec_from_file_location(module_name, path)
                assert spec is not None
                assert spec.loader is not None
                module = importlib.util.module_from_spec(spec)
                sys.modules[module_name] = module  # dataclasses and pickle look there
                try:
                    spec.loader.exec_module(module)
                except BaseException:
                    del sys.modules[module_name]
                    raise
        else:
            module = importlib.import_module(place)
            if _IMPORTED.setdefault(place, code.digest) != code.digest:
                raise InputError(
                    f"{what} {code.text!r}: {path} has changed since it was imported: restart Python"
                )
    functions = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
    if not callable(getattr(module, name, None)):
        one_of(f"function of {path.name}", name, functions)
        raise InputError(f"{what} {code.text!r}: {name} is no function")
    function: Callable[..., Any] = getattr(module, name)
    return function


def _root(place: str, path: Path) -> Path:
    """The folder from which a module is imported, or beside a file its siblings."""
    if place.endswith(".py"):
        return path.parent
    levels = place.count(".") + (path.name == "__init__.py")
    return path.parents[levels]


@contextlib.contextmanager
def _importable(root: Path) -> Iterator[None]:
    """`root` at the end of the search path while code is loaded."""
    added = str(root) not in sys.path
    if added:
        sys.path.append(str(root))
    try:
        yield
    finally:
        if added:
            sys.path.remove(str(root))
