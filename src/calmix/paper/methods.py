"""The paper's methods by name: an ensemble and an augmentation -> the recipe at a scale."""

import dataclasses

from calmix.presets import preset
from calmix.recipe import Recipe

ENSEMBLES = {"single": "single", "batch": "BE", "mc": "MC", "deep": "DE"}
AUGMENTS = {
    "none": "none",
    "mixup": "Mixup",
    "camixup": "CAMixup",
    "camixup-by-pool": "CAMixup by pool",
    "forgetting": "forgetting CAMixup",
    "augmix": "AugMix",
    "augmix+mixup": "AugMixup",
    "augmix+camixup": "AugCAMixup",
    "regmixup": "RegMixup",
    "mixupmp": "MixupMP",
    "cutmix": "CutMix",
    "cutmix-camixup": "CutMix, CAMixup's choice",
}
BY_POOL, SMOOTHED = "-by-pool", "label-smoothing-"


def method(
    dataset: str, ensemble: str, augment: str = "none", *, scale: str = "laptop", seed: int = 0
) -> Recipe:
    """The recipe whose `augment` is the one given, with an amount or a choice in it.

    >>> method("cifar10", "deep", "label-smoothing-0.2").smoothing
    0.2
    >>> method("cifar10", "deep", "camixup-by-pool").gap_of
    'pool'
    """
    if augment.startswith(SMOOTHED):
        plain = preset(dataset, ensemble, scale=scale, seed=seed)
        return dataclasses.replace(plain, smoothing=float(augment.removeprefix(SMOOTHED)))
    recipe = preset(dataset, ensemble, augment.removesuffix(BY_POOL), scale=scale, seed=seed)
    return dataclasses.replace(recipe, gap_of="pool") if augment.endswith(BY_POOL) else recipe


def title(augment: str) -> str:
    """An augmentation as the paper calls it.

    >>> title("augmix+camixup"), title("label-smoothing-0.2")
    ('AugCAMixup', 'label smoothing 0.2')
    """
    if augment.startswith(SMOOTHED):
        return f"label smoothing {augment.removeprefix(SMOOTHED)}"
    return AUGMENTS.get(augment, augment)


def regime(recipe: Recipe) -> str:
    """The scale of a recipe and what it changes of that scale's preset: runs that share it may be compared.

    >>> regime(dataclasses.replace(method("digits", "deep", scale="smoke"), epochs=5))
    'smoke, epochs 5'
    """
    augment = "+".join(part for part in (recipe.transform, recipe.mixing) if part != "none") or "none"
    plain = preset(recipe.dataset, recipe.ensemble, augment, scale=recipe.scale, seed=recipe.seed)
    plain = dataclasses.replace(plain, smoothing=recipe.smoothing, gap_of=recipe.gap_of)
    changed = [
        f"{field.name.replace('_', ' ')} {getattr(recipe, field.name)}"
        for field in dataclasses.fields(Recipe)
        if getattr(recipe, field.name) != getattr(plain, field.name)
    ]
    return ", ".join([recipe.scale, *changed])
