"""Regime: the runs of one data set that may be compared, by method."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from statistics import fmean
from typing import Any, TypeAlias

from calmix.runs.augmentation import parse_augmentation
from calmix.runs.presets import preset
from calmix.runs.recipe import ENSEMBLES, Recipe
from calmix.study.estimates import Estimate, NotRunError, SeedVariance, estimate
from calmix.study.quantities import Quantity
from calmix.study.results import Group, Result

Method: TypeAlias = tuple[str, str]  # ensemble, augmentation
MAIN_SCALE = "laptop"  # of this project's own study
# Fields that say which method a run is, or which of its seeds.
OF_METHOD = {
    *("ensemble", "transform", "mixing", "mixing_digest", "gap_of", "smoothing"),
    *("seed", "train_on_validation"),
}


def method_title(method: Method) -> str:
    """
    >>> method_title(("batch", "augmix+camixup"))
    'BE, AugCAMixup'
    """
    return f"{ENSEMBLES[method[0]].short}, {parse_augmentation(method[1]).title}"


def seeds_text(counts: Iterable[int]) -> str:
    """The numbers of seeds of several methods.

    >>> seeds_text([5, 1, 3]), seeds_text([1, 1])
    ('1 to 5 seeds', '1 seed')
    """
    some = sorted(counts) or [0]
    seeds = " to ".join(map(str, dict.fromkeys((some[0], some[-1]))))
    return f"{seeds} seed{'s' * (seeds != '1')}"


@dataclass(frozen=True, eq=False)
class Regime:
    """Evaluated runs of one data set in one regime; `left_out` counts those of its other regimes.

    `spread` are the runs whose methods share their variance over seeds; by default these runs. The methods of
    one ensemble share it, or those of all where one ensemble has too few seeds.
    """

    dataset: str
    name: str
    results: Mapping[Method, tuple[Result, ...]]
    left_out: int = 0
    spread: Mapping[Method, tuple[Result, ...]] = field(default_factory=dict)

    def __getitem__(self, method: Method) -> tuple[Result, ...]:
        """The results of a method, one for each seed."""
        if results := self.results.get(method):
            return results
        raise NotRunError(f"{method_title(method)} on {self.dataset}")

    def groups(self, methods: Iterable[Method]) -> list[Group]:
        """The methods that were run, in the order given."""
        return [Group(self.results[m][0].recipe, self.results[m]) for m in methods if m in self.results]

    def estimate(self, method: Method, quantity: Quantity) -> Estimate:
        """A quantity of a method, with the variance over seeds that methods of the regime share."""
        return estimate(self[method], quantity, self._variance(method[0], quantity))

    def _variance(self, ensemble: str, quantity: Quantity) -> SeedVariance:
        key = ensemble, quantity
        if key not in self._variances:
            values = {m: quantity.values(results) for m, results in (self.spread or self.results).items()}
            own = [some for method, some in values.items() if method[0] == ensemble]
            self._variances[key] = SeedVariance.of_ensemble(own, [*values.values()])
        return self._variances[key]

    @cached_property
    def _variances(self) -> dict[tuple[str, Quantity], SeedVariance]:
        return {}


def main_regime(results: Iterable[Result], dataset: str) -> Regime:
    """The regime in which a data set has the most evaluated runs."""
    evaluated = [r for r in results if r.recipe.dataset == dataset and r.summary]
    names = _names_by_recipe([result.recipe for result in evaluated])
    counts = Counter(name for result in evaluated for name in names[result.recipe])
    name = counts.most_common(1)[0][0] if counts else ""
    chosen = [result for result in evaluated if name in names[result.recipe]]
    return Regime(dataset, name, _by_method(chosen), len(evaluated) - len(chosen))


def planned_regime(results: Iterable[Result], dataset: str, among: Iterable[Result] = ()) -> Regime:
    """All evaluated runs of a data set, which were planned to be compared: one for each method and seed.

    The runs `among` which they were chosen tell the variance over seeds, as far as they are of one regime.
    """
    evaluated = [r for r in results if r.recipe.dataset == dataset and r.summary]
    regime, whole = main_regime(evaluated, dataset), main_regime(among, dataset)
    spread = whole.results if whole.name == regime.name else {}
    return replace(regime, results=_by_method(evaluated), left_out=0, spread=spread)


def _by_method(results: Iterable[Result]) -> dict[Method, tuple[Result, ...]]:
    by_method: dict[Method, tuple[Result, ...]] = {}
    for result in sorted(results, key=lambda result: result.recipe.seed):
        method = result.recipe.ensemble, result.recipe.augment
        by_method[method] = (*by_method.get(method, ()), result)
    return by_method


def main_regimes(results: Sequence[Result]) -> list[Regime]:
    """The main regime of every data set, the one with the lowest mean error first."""
    names = dict.fromkeys(result.recipe.dataset for result in results)
    return sorted((main_regime(results, name) for name in names), key=_mean_error)


def _mean_error(regime: Regime) -> float:
    runs = [result for some in regime.results.values() for result in some]
    return 1 - fmean(r.summary.clean.pool.accuracy for r in runs if r.summary) if runs else 1.0


def regime_names(recipe: Recipe) -> tuple[str, ...]:
    """The regimes that a recipe belongs to: its scale, and what it changes of that scale's preset, the
    paper's or that of its authors' scripts.

    A method that needs validation images of its own, as CAMixup does, also belongs to the regime whose other
    methods train on theirs.

    >>> regime_names(preset("digits", "deep", scale="smoke").replace(epochs=5))
    ('smoke, epochs 5',)
    """
    return _regime_names(recipe, recipe.scale)


@lru_cache(maxsize=4096)
def _regime_names(recipe: Recipe, scale: str) -> tuple[str, ...]:
    if "dataset" in recipe.digests:  # no preset knows it
        return _with_reading(recipe, scale)
    paper, scripts = (_changes(recipe, paper_code=paper_code) for paper_code in (False, True))
    changes = ["the authors' scripts", *scripts] if len(scripts) < len(paper) else paper
    return _with_reading(recipe, ", ".join([scale, *changes]))


def _with_reading(recipe: Recipe, name: str) -> tuple[str, ...]:
    if recipe.train_on_validation:
        return (f"{name}, train on validation",)
    return (name, f"{name}, train on validation") if recipe.needs_validation else (name,)


def _changes(recipe: Recipe, *, paper_code: bool) -> list[str]:
    """What a recipe changes of its preset; no file is read, also where its mixing is the user's own."""
    augmentation = recipe.augmentation
    if "mixing" in recipe.digests:
        augmentation = replace(augmentation, mixing="mixup")
    method = recipe.dataset, recipe.ensemble, str(augmentation)
    plain = preset(*method, scale=recipe.scale, paper_code=paper_code, seed=recipe.seed)
    plain = plain.replace(train_on_validation=recipe.train_on_validation, gap_of=recipe.gap_of)
    fields, usual = recipe.flat(), plain.flat()
    names = [name for name in fields | usual if fields.get(name) != usual.get(name)]
    return [_change(name, fields) for name in names if name not in OF_METHOD]


def _names_by_recipe(recipes: Sequence[Recipe]) -> dict[Recipe, tuple[str, ...]]:
    """The regimes of each recipe of one data set. The user's own data have no preset to compare with: there
    the usual value of a field is the one that most of these runs have."""
    if not any("dataset" in recipe.digests for recipe in recipes):
        return {recipe: regime_names(recipe) for recipe in recipes}
    flat = {recipe: recipe.flat() for recipe in recipes}
    usual: dict[tuple[str, str], Counter[str]] = {}
    for recipe, fields in flat.items():
        for name, value in fields.items():
            usual.setdefault((name, _bound_to(name, recipe)), Counter())[str(value)] += 1
    names = {}
    for recipe, fields in flat.items():
        compared = {name: str(value) for name, value in fields.items() if name not in OF_METHOD}
        changes = [
            _change(name, fields)
            for name, value in compared.items()
            if usual[name, _bound_to(name, recipe)].most_common(1)[0][0] != value
        ]
        names[recipe] = _with_reading(recipe, ", ".join([recipe.scale, *changes]))
    return names


def _bound_to(name: str, recipe: Recipe) -> str:
    """What a field's usual value depends on: members on the ensemble, alpha on the mixing."""
    return {"members": recipe.ensemble, "dropout": recipe.ensemble, "alpha": recipe.mixing}.get(name, "")


def _change(name: str, fields: Mapping[str, Any]) -> str:
    return f"{name.replace('_', ' ')} {fields.get(name)}"
