"""What a run folder holds for a reader; what it lacks is said, and never an error."""

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix import run_folder
from calmix.errors import InputError
from calmix.predictions import Predictions, load_predictions
from calmix.recipe import Recipe
from calmix.report.style import COLOURS
from calmix.run_folder import Run

Key = tuple[str, str, str]  # data set, ensemble, augmentation
ENSEMBLES = {"single": "single", "mc": "MC-dropout", "batch": "BatchEnsemble", "deep": "deep ensemble"}


@dataclass(frozen=True, eq=False)
class Result:
    """A run's summary (empty before evaluation), its lines of training, and who was mixed: (E, M, groups)."""

    run: Run
    summary: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    mixed: npt.NDArray[Any] | None
    missing: tuple[str, ...]

    @property
    def recipe(self) -> Recipe:
        return self.run.recipe

    @property
    def dataset(self) -> str:
        """The data set's name; an image folder at the paper's scale is ImageNet."""
        imagenet = self.recipe.dataset == "folder" and self.recipe.scale == "paper"
        return "imagenet" if imagenet else self.recipe.dataset

    @property
    def key(self) -> Key:
        return self.dataset, self.recipe.ensemble, self.recipe.augment

    def clean(self, name: str) -> float | None:
        """A metric of the pool on the test set."""
        return _number(self.summary.get("clean", {}).get("pool", {}).get(name))

    def members(self, name: str) -> float | None:
        """A metric's mean over the members."""
        values = [_number(member.get(name)) for member in self.summary.get("clean", {}).get("members", [])]
        return (
            float(np.mean([v for v in values if v is not None]))
            if any(v is not None for v in values)
            else None
        )

    def other(self, *path: str) -> float | None:
        """A number elsewhere in the summary: `other("temperature", "ece")`."""
        found: Any = self.summary
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return _number(found)

    def by_severity(self, name: str) -> dict[int, float]:
        """The mean over corruption types of a metric of the pool, at each severity."""
        found: dict[int, list[float]] = {}
        for of_type in self.summary.get("corrupted", {}).values():
            for severity, judged in of_type.items():
                if (value := _number(judged.get("pool", {}).get(name))) is not None:
                    found.setdefault(int(severity), []).append(value)
        return {severity: float(np.mean(values)) for severity, values in sorted(found.items())}

    def test_predictions(self) -> Predictions | None:
        path = self.run.predictions("test")
        with contextlib.suppress(InputError):
            return load_predictions(path) if path.exists() else None
        return None

    def class_names(self, count: int) -> list[str]:
        """The names that the summary gives its classes, or their numbers."""
        names = self.summary.get("classes")
        if isinstance(names, list) and len(names) == count:
            return [str(name) for name in names]
        return [str(k) for k in range(count)]


def read_results(runs: Iterable[Run]) -> list[Result]:
    """What can be read of each run, in the order of data set, ensemble, augmentation and seed."""
    found = [_read(run) for run in runs]
    return sorted(found, key=_place)


def _place(result: Result) -> tuple[str, int, int, str, int, str]:
    """Ensembles from small to large, augmentations in the order of their colours, unknown ones last."""
    dataset, ensemble, augment = result.key
    known = list(COLOURS)
    rank = known.index(augment) if augment in known else len(known)
    return dataset, list(ENSEMBLES).index(ensemble), rank, augment, result.recipe.seed, result.run.folder.name


def _read(run: Run) -> Result:
    missing = []
    summary: Any = {}
    if run.summary.exists():
        try:
            summary = run_folder.read_json(run.summary)
        except InputError as error:
            missing.append(f"its numbers ({error})")
        if not isinstance(summary, dict):
            missing.append("its numbers (summary.json holds no object)")
            summary = {}
    elif run.trained:
        missing.append("an evaluation (calmix evaluate)")
    else:
        missing.append("the end of its training (calmix train goes on)")
    if summary and "corrupted" not in summary:
        missing.append("corrupted test sets (calmix evaluate --corruptions)")
    if not run.predictions("test").exists():
        missing.append("test predictions")
    history = _history(run)
    if not history:
        missing.append("lines of training")
    mixed = None
    if run.mixed.exists():
        try:
            mixed = run_folder.read_mixed(run)
        except InputError:
            missing.append("a readable record of who was mixed")
    return Result(run, summary, history, mixed, tuple(missing))


def _history(run: Run) -> list[dict[str, Any]]:
    """The lines of training; of a run that is not finished, those of its streams."""
    paths = (
        [run.metrics]
        if run.metrics.exists()
        else sorted({run.stream(k) / "metrics.jsonl" for k in range(run.streams)})
    )
    return [line for path in paths for line in _lines(path)]


def _lines(path: Path) -> list[dict[str, Any]]:
    found = []
    for text in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            line = json.loads(text)
            if isinstance(line, dict) and "epoch" in line:
                found.append(line)
    return found


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if np.isfinite(value) else None


def by_key(results: Iterable[Result]) -> dict[Key, list[Result]]:
    """Runs that differ in their seed, or in a detail that the key does not name, together."""
    found: dict[Key, list[Result]] = {}
    for result in results:
        found.setdefault(result.key, []).append(result)
    return found
