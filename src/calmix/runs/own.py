"""Networks, data sets and mixers of the user's own, as fields of a recipe.

A recipe names them by a short text (`mine.npz`, `nets.py:make`), holds their digests in `digests`, which are
part of the run's name, and where they were found in `paths`, which is not.
"""

import functools
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix import data
from calmix.data.paths import looks_like_path
from calmix.errors import InputError, one_of
from calmix.runs import code
from calmix.runs.code import Code

if TYPE_CHECKING:
    from calmix.runs.recipe import Recipe

_DATA: dict[str, data.DataSet] = {}  # data sets that this process was given as objects, by digest


def function_fields(field: str, value: str | Callable[..., Any]) -> dict[str, Any]:
    """Fields of a recipe for a `network` or a `mixing` that the user gives: a name, a text or a function."""
    if isinstance(value, str) and not code.is_code(value):
        return {field: value, "digests": {field: None}, "paths": {field: None}}
    given = code.given(field, value)
    return {field: given.text, "digests": {field: given.digest}, "paths": {field: given.path or None}}


def dataset_fields(value: Any) -> tuple[data.DataSet | None, dict[str, Any]]:
    """A data set that the user gives, and its fields of a recipe; None for one that calmix knows by name."""
    if isinstance(value, str) and value in data.NAMES:
        return None, {
            "dataset": value,
            "digests": {"dataset": None},
            "paths": {"dataset": None},
            "loader_digest": "",
        }
    path, loader = None, ""
    if isinstance(value, str) and code.is_code(value) and not Path(value).exists():
        given = code.given("dataset", value)
        whole = _called(given.text, code.load("dataset", given))
        name, path, loader = given.text, given.path, given.digest
    elif isinstance(value, str | os.PathLike):
        if isinstance(value, str) and not looks_like_path(value):
            one_of("dataset", value, data.NAMES)
        path = str(Path(value).expanduser().resolve())
        whole, name = _at_path(path), Path(path).name
    else:
        whole = _of_object(value)
        name = whole.name
    if name in data.NAMES:
        name = f"own-{name}"  # no numbers of a published data set are meant
    digest = _digest(whole)
    if path is None:
        _DATA[digest] = whole
    fields = {"dataset": name, "digests": {"dataset": digest}, "paths": {"dataset": path}}
    return whole, fields | {"loader_digest": loader}


def load_data(recipe: "Recipe", data_root: Path | None = None) -> data.DataSet:
    """The data set of a recipe; refused where it is no longer the one that the recipe was written for."""
    digest = recipe.digests.get("dataset")
    if digest is None:
        return data.load(recipe.dataset, data_root)
    if digest in _DATA:
        return _DATA[digest]
    path = recipe.paths.get("dataset", "")
    if not path:
        raise InputError(
            f"dataset {recipe.dataset!r} was given as a Python object, which a recipe cannot hold: pass "
            "dataset= again in this call; worker processes need a .npz file or file.py:load"
        )
    if recipe.loader_digest:
        loader = Code(recipe.dataset, recipe.loader_digest, path)
        whole = _loaded(loader)
    else:
        whole = _at_path(path)
    if _digest(whole) != digest:
        raise InputError(
            f"dataset {recipe.dataset!r}: the content of {path} has changed since the recipe was written; "
            "restore it, or train a new run on it"
        )
    return whole


def use_data(recipe: "Recipe", value: Any) -> None:
    """Let a data set that the user gives now stand for the recipe's: its content must be the same."""
    whole, fields = dataset_fields(value)
    if whole is None or fields["digests"]["dataset"] != recipe.digests.get("dataset"):
        raise InputError(f"dataset {fields['dataset']!r} is not the one of the recipe ({recipe.dataset})")
    _DATA[fields["digests"]["dataset"]] = whole


def use_code(recipe: "Recipe", field: str, value: str | Callable[..., Any]) -> str:
    """Let code that the user gives now stand for the recipe's; a warning where its source is another."""
    text: str = getattr(recipe, field)
    if not code.is_code(text):
        raise InputError(f"{field}: the recipe has calmix's own {text!r}; leave {field} out")
    return code.stand_in(field, recipe.code(field), value)


def merge(old: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Digests or paths of a recipe with changes; None removes one."""
    merged = {**old, **changes}
    return {field: value for field, value in merged.items() if value}


def short(text: str) -> str:
    """The part of a text that suits a folder's name.

    >>> short("nets.py:make"), short("package.module:load"), short("mine.npz"), short("cifar10")
    ('nets', 'module', 'mine', 'cifar10')
    """
    name = text
    if code.is_code(text):
        name = text.rpartition(":")[0].removesuffix(".py").rpartition(".")[2]
    name = name.removesuffix(".npz")
    return re.sub(r"[^\w.+-]+", "_", name)


def _of_object(value: Any) -> data.DataSet:
    if isinstance(value, data.DataSet):
        data.check_dataset(value)
        return value
    if isinstance(value, tuple | list) and len(value) == 2:
        return data.from_datasets(*value)
    if callable(value):
        return _called(getattr(value, "__name__", "function"), value)
    raise InputError(
        "dataset must be a name, a path, 'file.py:load', a calmix.data.DataSet, or a pair (train, test) of "
        f"torch Datasets; got {type(value).__name__}"
    )


def _called(text: str, load: Callable[..., Any]) -> data.DataSet:
    whole = code.call("dataset", text, load)
    if not isinstance(whole, data.DataSet):
        raise InputError(f"dataset {text} must return a calmix.data.DataSet, got {type(whole).__name__}")
    data.check_dataset(whole)
    return whole


@functools.lru_cache(maxsize=4)
def _loaded(loader: Code) -> data.DataSet:
    return _called(loader.text, code.load("dataset", loader))


def _at_path(path: str) -> data.DataSet:
    try:
        state = os.stat(path)
    except OSError:
        raise InputError(f"{path}: no such file or folder") from None
    return _read(path, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=4)
def _read(path: str, _changed: int, _size: int) -> data.DataSet:
    whole = data.load_path(Path(path))
    data.check_dataset(whole)
    return whole


_DIGESTS: dict[int, tuple[data.DataSet, str]] = {}


def _digest(whole: data.DataSet) -> str:
    """The digest of a data set, computed once for each of the last few objects."""
    known = _DIGESTS.get(id(whole))
    if known is None or known[0] is not whole:
        while len(_DIGESTS) >= 4:
            del _DIGESTS[next(iter(_DIGESTS))]
        known = _DIGESTS[id(whole)] = whole, data.dataset_digest(whole)
    return known[1]
