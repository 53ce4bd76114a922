"""The command that repeats a run."""

import dataclasses
import json
import shlex
from typing import Any

from calmix.errors import InputError
from calmix.runs.code import is_code
from calmix.runs.presets import preset
from calmix.runs.recipe import Recipe

APART = ("network_options", "digests")
FLAGS = ("width", "depth", "hidden", "dropout", "filterwise")  # options of networks with a flag of their own


def train_command(recipe: Recipe) -> str:
    """`calmix train` with every option in which the recipe differs from its preset.

    >>> train_command(preset("digits", "deep", "camixup").replace(epochs=3, width=8))
    'calmix train --dataset digits --ensemble deep --augment camixup --scale laptop --epochs 3 --width 8'
    """
    augment = "+".join(_augment_parts(recipe))
    own_network = _place(recipe, "network") if is_code(recipe.network) else None
    dataset = _place(recipe, "dataset")
    try:
        start = preset(dataset, recipe.ensemble, augment, scale=recipe.scale, network=own_network)
    except InputError:  # data or code of the user's own that is not here
        return _full_command(recipe)
    words = ["calmix", "train", "--dataset", dataset, "--ensemble", recipe.ensemble]
    words += ["--augment", augment, "--scale", recipe.scale]
    words += ["--network", own_network] if own_network else []
    if recipe.network != start.network:
        words += ["--network", recipe.network]
        start = start.replace(network=recipe.network)  # keeps the options that all networks have
    names = [f.name for f in dataclasses.fields(recipe) if f.compare and f.name not in APART]
    changed = _changes({n: getattr(start, n) for n in names}, {n: getattr(recipe, n) for n in names})
    options = _changes(start.network_options, recipe.network_options)
    changed |= {name: value for name, value in options.items() if name in FLAGS}
    for name, value in changed.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", *map(str, value if isinstance(value, tuple) else (value,))]
    if others := {name: value for name, value in options.items() if name not in FLAGS}:
        words += ["--network-options", json.dumps(others)]
    return shlex.join(words)


def _full_command(recipe: Recipe) -> str:
    """Every field, where the defaults cannot be derived."""
    words = ["calmix", "train", "--dataset", _place(recipe, "dataset"), "--ensemble", recipe.ensemble]
    words += ["--augment", "+".join(_augment_parts(recipe)), "--scale", recipe.scale]
    words += ["--network", _place(recipe, "network")]
    stated = {"dataset", "ensemble", "network", "transform", "mixing", "gap_of", "smoothing"}
    names = [f.name for f in dataclasses.fields(recipe) if f.compare and f.name not in {*APART, *stated}]
    for name in names:
        value = getattr(recipe, name)
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None and value != () and value != "":
            words += [f"--{flag}", *map(str, value if isinstance(value, tuple) else (value,))]
    if recipe.network_options:
        words += ["--network-options", json.dumps(recipe.network_options)]
    return shlex.join(words)


def _place(recipe: Recipe, name: str) -> str:
    """Where something is found, as a flag takes it."""
    text, path = str(getattr(recipe, name)), recipe.paths.get(name, "")
    if not path or (is_code(text) and not text.rpartition(":")[0].endswith(".py")):
        return text
    return f"{path}:{text.rpartition(':')[2]}" if is_code(text) else path


def _augment_parts(recipe: Recipe) -> list[str]:
    mixing = recipe.mixing
    return [_place(recipe, "mixing") if part == mixing else part for part in recipe.augment.split("+")]


def _changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in after.items() if name not in before or value != before[name]}
