"""The command that repeats a run."""

import dataclasses
import json
import shlex
from typing import Any

from calmix.runs.presets import preset
from calmix.runs.recipe import Recipe

FLAGS = ("width", "depth", "hidden", "dropout", "filterwise")  # options of networks with a flag of their own


def train_command(recipe: Recipe) -> str:
    """`calmix train` with every option in which the recipe differs from its preset.

    >>> train_command(preset("digits", "deep", "camixup").replace(epochs=3, width=8))
    'calmix train --dataset digits --ensemble deep --augment camixup --scale laptop --epochs 3 --width 8'
    """
    start = preset(recipe.dataset, recipe.ensemble, recipe.augment, scale=recipe.scale)
    words = ["calmix", "train", "--dataset", recipe.dataset, "--ensemble", recipe.ensemble]
    words += ["--augment", recipe.augment, "--scale", recipe.scale]
    if recipe.network != start.network:
        words += ["--network", recipe.network]
        start = start.replace(network=recipe.network)  # keeps the options that all networks have
    names = [field.name for field in dataclasses.fields(recipe) if field.name != "network_options"]
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


def _changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in after.items() if name not in before or value != before[name]}
