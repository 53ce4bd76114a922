"""A run as the command that makes it again."""

import dataclasses
import shlex

from calmix.errors import flag
from calmix.presets import preset
from calmix.recipe import Recipe


def train_command(recipe: Recipe) -> str:
    """`calmix train` with every option in which the recipe differs from its preset.

    >>> train_command(dataclasses.replace(preset("digits", "deep", "camixup"), epochs=3))
    'calmix train --dataset digits --ensemble deep --augment camixup --scale laptop --epochs 3'
    """
    smoothing = "label-smoothing" if recipe.smoothing else "none"
    parts = [part for part in (recipe.transform, recipe.mixing, smoothing) if part != "none"]
    augment = "+".join(parts) or "none"
    start = preset(recipe.dataset, recipe.ensemble, augment, scale=recipe.scale)
    words = ["calmix", "train", "--dataset", recipe.dataset, "--ensemble", recipe.ensemble]
    words += ["--augment", augment, "--scale", recipe.scale]
    for field in dataclasses.fields(recipe):
        value = getattr(recipe, field.name)
        if value == getattr(start, field.name):
            continue
        name = flag(field.name)
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            words += [f"--{name}", *map(str, value if isinstance(value, tuple) else (value,))]
    return shlex.join(words)
