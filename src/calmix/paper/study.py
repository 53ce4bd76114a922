"""Many runs as one study: what a method measured, over its seeds."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from calmix import run_folder
from calmix.corruptions import CORRUPTIONS
from calmix.errors import InputError
from calmix.paper.methods import ENSEMBLES, regimes, title
from calmix.run_folder import Run

Method = tuple[str, str]  # ensemble, augmentation


class NotRunError(Exception):
    """A number is asked for whose run does not exist, or lacks a part of its evaluation."""


@dataclass(frozen=True, eq=False)
class Result:
    """An evaluated run."""

    run: Run
    summary: Mapping[str, Any]

    @property
    def corrupted(self) -> bool:
        """Whether it was evaluated under every corruption of the benchmark."""
        return set(CORRUPTIONS) <= set(self.summary.get("corrupted", {}))


def read_result(run: Run) -> Result | None:
    """The result of a run; None where it is not evaluated, or its summary cannot be read."""
    with contextlib.suppress(InputError):
        summary = run_folder.read_json(run.summary)
        if isinstance(summary, dict) and {"clean", "temperature"} <= summary.keys():
            return Result(run, summary)
    return None


@dataclass(frozen=True, eq=False)
class Study:
    """Evaluated runs of one data set in one regime; `left_out` counts those of its other regimes."""

    dataset: str
    regime: str
    results: Mapping[Method, tuple[Result, ...]]
    left_out: int = 0

    @classmethod
    def of(cls, runs: Iterable[Run], dataset: str) -> "Study":
        """The study of the regime in which the data set has the most evaluated runs."""
        held = [result for run in runs if run.recipe.dataset == dataset and (result := read_result(run))]
        counts = Counter(name for result in held for name in regimes(result.run.recipe))
        chosen = counts.most_common(1)[0][0] if counts else ""
        results: dict[Method, tuple[Result, ...]] = {}
        for result in sorted(held, key=lambda result: result.run.recipe.seed):
            recipe = result.run.recipe
            if chosen in regimes(recipe):
                method = recipe.ensemble, recipe.augment
                results[method] = (*results.get(method, ()), result)
        return cls(dataset, chosen, results, len(held) - counts[chosen])

    def __getitem__(self, method: Method) -> tuple[Result, ...]:
        """The results of a method, one for each seed."""
        if found := self.results.get(method):
            return found
        raise NotRunError(f"{ENSEMBLES[method[0]]} with {title(method[1])} on {self.dataset}")
