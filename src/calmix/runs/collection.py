"""A collection of runs: selected by their recipes, and as rows of one table."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from calmix.errors import InputError, one_of
from calmix.runs.folder import Run
from calmix.runs.recipe import NETWORK_OPTIONS, Recipe
from calmix.runs.summary import TestScores


class Runs(Sequence[Run]):
    """Runs in order; `where` selects by fields of the recipe, `rows` and `to_frame` give the numbers."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = list(runs)

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        return Runs(self._runs[place]) if isinstance(place, slice) else self._runs[place]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __repr__(self) -> str:
        return f"Runs({[run.folder.name for run in self]})"

    def where(self, **fields: Any) -> "Runs":
        """The runs whose recipes have these values: `where(ensemble="deep", augment="mixup", seed=0)`.

        Options of networks count as fields: `where(width=8)`.
        """
        names = [f.name for f in dataclasses.fields(Recipe)]
        options = {name for run in self for name in run.recipe.network_options}
        for name in fields:
            one_of("recipe field", name, (*names, "augment", *sorted({*NETWORK_OPTIONS, *options})))
        wanted = {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}
        return Runs(run for run in self if all(_value(run, name) == wanted[name] for name in wanted))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each evaluated run, condition, and pool or member.

        `condition` is `test` or `<corruption>-<severity>`, `of` is `pool` or `member`, `member` its number.
        The metrics are fractions; those of the pool at the fitted temperature begin with `scaled_`. The
        recipe's fields come first.
        """
        return [row for run in self if run.summary_path.exists() for row in _rows(run)]

    def to_frame(self) -> Any:
        """`rows()` as a pandas DataFrame."""
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError:
            raise InputError("to_frame needs pandas: pip install pandas, or use rows()") from None
        return pandas.DataFrame(self.rows())


def _value(run: Run, name: str) -> Any:
    recipe = run.recipe
    value = getattr(recipe, name) if hasattr(recipe, name) else recipe.network_options.get(name)
    return list(value) if isinstance(value, tuple) else value


def _rows(run: Run) -> Iterator[dict[str, Any]]:
    summary = run.summary
    fields = {"run": run.folder.name, "augment": run.recipe.augment, **run.recipe.flat()}
    yield from _of_condition(fields, "test", None, None, summary.clean)
    for name, severities in summary.corrupted.items():
        for severity, scores in severities.items():
            yield from _of_condition(fields, f"{name}-{severity}", name, severity, scores)


def _of_condition(
    fields: dict[str, Any], condition: str, corruption: str | None, severity: int | None, scores: TestScores
) -> Iterator[dict[str, Any]]:
    place = {"condition": condition, "corruption": corruption, "severity_level": severity}
    start = {**fields, **place, "examples": scores.examples}
    scaled = {} if scores.scaled is None else {f"scaled_{k}": v for k, v in vars(scores.scaled).items()}
    yield {**start, "of": "pool", "member": None, **vars(scores.pool), **scaled}
    for k, member in enumerate(scores.members):
        yield {**start, "of": "member", "member": k, **vars(member)}
