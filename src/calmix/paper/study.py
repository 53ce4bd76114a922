"""Many runs as one study: what a method measured, over its seeds."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from calmix import run_folder
from calmix.paper.methods import ENSEMBLES, regime, title
from calmix.run_folder import Run

Method = tuple[str, str]  # ensemble, augmentation


class NotRunError(Exception):
    """A number is asked for whose run does not exist, or lacks a part of its evaluation."""


@dataclass(frozen=True, eq=False)
class Result:
    """An evaluated run."""

    run: Run
    summary: Mapping[str, Any]


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
        held = [run for run in runs if run.recipe.dataset == dataset and run.summary.exists()]
        regimes = Counter(regime(run.recipe) for run in held)
        chosen = regimes.most_common(1)[0][0] if regimes else ""
        results: dict[Method, tuple[Result, ...]] = {}
        for run in sorted(held, key=lambda run: run.recipe.seed):
            if regime(run.recipe) == chosen:
                method = run.recipe.ensemble, run.recipe.augment
                result = Result(run, run_folder.read_json(run.summary))
                results[method] = (*results.get(method, ()), result)
        return cls(dataset, chosen, results, len(held) - regimes[chosen])

    def __getitem__(self, method: Method) -> tuple[Result, ...]:
        """The results of a method, one for each seed."""
        if found := self.results.get(method):
            return found
        raise NotRunError(f"{ENSEMBLES[method[0]]} with {title(method[1])} on {self.dataset}")
