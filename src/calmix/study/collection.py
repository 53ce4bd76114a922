"""A collection of runs: iterate over it, select by recipe fields, and take all numbers out of it as rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from calmix.errors import InputError, one_of
from calmix.progress import Reporter, ignore
from calmix.runs.folder import Run, find_runs
from calmix.runs.recipe import Recipe
from calmix.runs.summary import TestScores
from calmix.study.results import Result, Results, read_result

ALIASES = ("augment",)  # properties of a recipe by which runs are selected, besides its fields


class Runs(Sequence[Run]):
    """Runs in the order of data set, ensemble, augmentation and seed.

    A run has `recipe`, `summary`, `history`, `model()` and `predictions("test")`.
    """

    def __init__(self, runs: Iterable[Run | Result]) -> None:
        self.results = Results(run if isinstance(run, Result) else read_result(run) for run in runs)

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        return Runs(self.results[place]) if isinstance(place, slice) else self.results[place].run

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Run]:
        return (result.run for result in self.results)

    def __repr__(self) -> str:
        evaluated = sum(result.summary is not None for result in self.results)
        return f"Runs({len(self)} runs, {evaluated} of them evaluated)"

    def where(self, **values: Any) -> "Runs":
        """The runs whose recipes have these values; a list or tuple names several.

        `where(ensemble="deep", augment=["none", "mixup"], width=16)`
        """
        options = {name for result in self.results for name in result.recipe.network_options}
        for name in values:
            one_of("recipe field", name, (*(f.name for f in fields(Recipe)), *ALIASES, *sorted(options)))
        return Runs(result for result in self.results if _matches(result.recipe, values))

    def rows(self, *, corruptions: bool = False) -> list[dict[str, Any]]:
        """A row for each evaluated run, condition, and pool or member: names, the recipe's fields, and every
        metric as a fraction.

        Conditions are "clean" and, where a run was evaluated under all of the benchmark's corruptions,
        "corrupted", their mean; with `corruptions` also each, as "fog-3". `of` is "pool" or "member 0", ...
        """
        return [row for result in self.results for row in _rows(result, corruptions=corruptions)]

    def to_frame(self, *, corruptions: bool = False) -> Any:
        """The rows as a pandas DataFrame."""
        try:
            import pandas  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise InputError("to_frame needs pandas: pip install pandas; rows() gives dictionaries") from None
        return pandas.DataFrame(self.rows(corruptions=corruptions))


def load_runs(path: str | Path | Sequence[str | Path], *, reporter: Reporter = ignore) -> Runs:
    """The runs of a folder of runs or of evidence, of a single run's folder, or of several such folders.

    One that cannot be read is reported and left out.
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    return Runs(find_runs([Path(each) for each in paths], reporter=reporter))


def _matches(recipe: Recipe, values: dict[str, Any]) -> bool:
    known = {"scale": recipe.scale, "augment": recipe.augment, **recipe.flat()}
    known["network_options"] = recipe.network_options
    return all(_is(known.get(name), wanted) for name, wanted in values.items())


def _is(value: Any, wanted: Any) -> bool:
    """Whether a field has the value that is wanted, or one of several."""
    if isinstance(wanted, list | tuple | set):
        return bool(value == tuple(wanted)) or any(_is(value, each) for each in wanted)
    return bool(value == wanted)


def _rows(result: Result, *, corruptions: bool) -> Iterator[dict[str, Any]]:
    summary, recipe = result.summary, result.recipe
    if summary is None:
        return
    first = {
        "run": result.run.folder.name,
        "dataset": recipe.dataset,
        "ensemble": recipe.ensemble,
        "augment": recipe.augment,
        "seed": recipe.seed,
        "scale": recipe.scale,
    }
    options = {name: value for name, value in recipe.flat().items() if name not in first}
    for condition, scores in {"clean": summary.clean, **_corrupted(result, corruptions)}.items():
        for of, metrics in _scores(scores):
            yield {**first, "condition": condition, "of": of, **metrics, **options}


def _corrupted(result: Result, each: bool) -> dict[str, TestScores | dict[str, float]]:
    assert result.summary is not None
    sets: dict[str, TestScores | dict[str, float]] = {}
    if scores := result.summary.corrupted_scores():
        names = vars(scores[0].pool)
        sets["corrupted"] = {name: sum(getattr(s.pool, name) for s in scores) / len(scores) for name in names}
    if each:
        for kind, by_severity in result.summary.corrupted.items():
            sets |= {f"{kind}-{severity}": scores for severity, scores in sorted(by_severity.items())}
    return sets


def _scores(scores: TestScores | dict[str, float]) -> Iterator[tuple[str, dict[str, float]]]:
    if isinstance(scores, dict):
        yield "pool", scores
        return
    yield "pool", dict(vars(scores.pool))
    for k, member in enumerate(scores.members):
        yield f"member {k}", dict(vars(member))
