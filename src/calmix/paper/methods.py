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


def regimes(recipe: Recipe) -> tuple[str, ...]:
    """The studies that a recipe belongs to, whose runs may be compared: its scale, and what it changes of
    that scale's preset, the paper's or that of its authors' scripts.

    What needs validation images of its own, as CAMixup does, also belongs to the study whose other methods
    train on theirs.

    >>> regimes(dataclasses.replace(method("digits", "deep", scale="smoke"), epochs=5))
    ('smoke, epochs 5',)
    """
    paper, scripts = (_changes(recipe, paper_code=paper_code) for paper_code in (False, True))
    changed = ["the authors' scripts", *scripts] if len(scripts) < len(paper) else paper
    own = ", ".join([recipe.scale, *changed])
    if recipe.train_on_validation:
        return (f"{own}, train on validation",)
    return (own, f"{own}, train on validation") if "camixup" in recipe.mixing else (own,)


def _changes(recipe: Recipe, *, paper_code: bool) -> list[str]:
    augment = "+".join(part for part in (recipe.transform, recipe.mixing) if part != "none") or "none"
    plain = preset(
        recipe.dataset,
        recipe.ensemble,
        augment,
        scale=recipe.scale,
        paper_code=paper_code,
        seed=recipe.seed,
    )
    same = {name: getattr(recipe, name) for name in ("smoothing", "gap_of", "train_on_validation")}
    plain = dataclasses.replace(plain, **same)
    return [
        f"{field.name.replace('_', ' ')} {getattr(recipe, field.name)}"
        for field in dataclasses.fields(Recipe)
        if getattr(recipe, field.name) != getattr(plain, field.name)
    ]
