"""Results of many runs: the one reader of finished and unfinished run folders, and how runs are grouped."""

import contextlib
import dataclasses
import math
import statistics
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calmix.corruptions import CORRUPTIONS
from calmix.errors import InputError
from calmix.files import READ_ERRORS
from calmix.predictions import Predictions
from calmix.runs.folder import Epoch, Run
from calmix.runs.influence import BinnedLabels, TopLabels, corrupted_influences, read_influences
from calmix.runs.recipe import ENSEMBLES, Recipe
from calmix.runs.summary import Summary
from calmix.study.evidence import FILE, Arrays, read_evidence, unpack
from calmix.study.joint import joint_scores
from calmix.study.subsets import subset_scores

# Augmentations in the order of tables and figures; others follow by name.
AUGMENT_ORDER = (
    *("none", "mixup", "camixup", "camixup-by-pool", "forgetting"),
    *("augmix", "augmix+mixup", "augmix+camixup"),
    *("cutmix", "cutmix-camixup", "regmixup", "mixupmp"),
)


@dataclass(frozen=True, eq=False)
class Result:
    """A run with its numbers (None before evaluation), its epochs, and what it lacks."""

    run: Run
    summary: Summary | None
    history: Sequence[Epoch]
    missing: tuple[str, ...]

    @property
    def recipe(self) -> Recipe:
        return self.run.recipe

    @cached_property
    def test(self) -> Predictions | None:
        """Predictions on the clean test set, or None."""
        try:
            return self.run.predictions("test") if self.run.predictions_path("test").exists() else None
        except InputError:
            return None

    def influence(self, name: str) -> npt.NDArray[np.float64]:
        """Influence of each test image on a quantity, (N,)."""
        return (self._corrupted_influences if name in ("ca", "cece") else self._clean_influences)[name]

    @cached_property
    def evidence(self) -> Arrays | None:
        """What was kept of the run in place of its predictions, or None."""
        try:
            return read_evidence(self.run.folder)
        except InputError:
            return None

    @cached_property
    def top_labels(self) -> TopLabels | None:
        """Predicted classes and confidences on the clean test set, from predictions or from evidence."""
        if self.test is not None:
            return TopLabels.of(self.test)
        return None if self.evidence is None else unpack(self.evidence)

    @cached_property
    def _clean_influences(self) -> dict[str, npt.NDArray[np.float64]]:
        if self.top_labels is None:
            raise InputError(f"{self.run.folder} has no test predictions: run `calmix evaluate` on it")
        return self.top_labels.influences()

    @cached_property
    def _corrupted_influences(self) -> dict[str, npt.NDArray[np.float64]]:
        if self.evidence is not None and "ca" in self.evidence:
            return {name: self.evidence[name].astype(np.float64) for name in ("ca", "cece")}
        sets = (self.summary.corrupted_scores() if self.summary else None) or []
        examples = sets[0].examples if sets else 0
        written = read_influences(self.run.influences_path, examples)
        return corrupted_influences(self.run.predictions) if written is None else written

    @cached_property
    def subsets(self) -> npt.NDArray[np.float64] | None:
        """Of a deep ensemble: accuracy, ECE, gap and NLL, means over subsets of each size, (4, members)."""
        if self.recipe.ensemble != "deep":
            return None
        return subset_scores(self.test) if self.test is not None else self._kept("subsets")

    @cached_property
    def joint(self) -> npt.NDArray[np.float64] | None:
        """Scores with the joint calibrator, in the order of `study.joint.METRICS`."""
        if self.recipe.train_on_validation:  # a calibrator is not fitted on training images
            return None
        if not all(self.run.predictions_path(what).exists() for what in ("validation", "test")):
            return self._kept("joint")
        corrupted = self.summary is not None and self.summary.corrupted_scores() is not None
        return joint_scores(self.run.predictions, corrupted=corrupted)

    def binned(self, severity: int) -> BinnedLabels | None:
        """Sums by bin over the benchmark's corruptions at one severity, or None."""
        sums = self._kept(f"severity_{severity}")
        if sums is not None:
            return BinnedLabels(sums)
        if not all(self.run.predictions_path(f"{name}-{severity}").exists() for name in CORRUPTIONS):
            return None
        return BinnedLabels.of_types(self.run.predictions, severity)

    def _kept(self, name: str) -> npt.NDArray[np.float64] | None:
        """An array of the evidence, or None."""
        if self.evidence is None or name not in self.evidence:
            return None
        return self.evidence[name].astype(np.float64)

    @cached_property
    def seconds(self) -> float | None:
        """Training time, members one after the other: each member's median epoch times its epochs, so that
        what else the machine did counts little."""
        by_member: dict[int, list[float]] = {}
        for epoch in self.history:
            by_member.setdefault(epoch.member, []).append(epoch.seconds)
        if by_member:
            return sum(len(seconds) * statistics.median(seconds) for seconds in by_member.values())
        seconds = math.nan if self.evidence is None else float(self.evidence["seconds"])
        return None if math.isnan(seconds) else seconds

    @cached_property
    def last_losses(self) -> list[float]:
        """The training loss of each member's last epoch."""
        if self.history or self.evidence is None:
            return list({epoch.member: epoch.loss for epoch in self.history}.values())
        return [float(loss) for loss in self.evidence["last_losses"]]

    @cached_property
    def mixed(self) -> npt.NDArray[np.float64] | None:
        """Share of the epochs in which each class or group was mixed, (members, groups)."""
        rows: dict[int, list[object]] = {}
        for epoch in self.history:
            if epoch.mixed_classes is not None:
                rows.setdefault(epoch.member, []).append(epoch.mixed_classes)
        if not rows and self.evidence is not None and "mixed" in self.evidence:
            return self.evidence["mixed"].astype(np.float64)
        if not rows or len({len(epochs) for epochs in rows.values()}) > 1:
            return None
        try:
            by_stream = [
                np.asarray(epochs, dtype=np.float64).mean(axis=0) for _, epochs in sorted(rows.items())
            ]
            return np.concatenate(by_stream)
        except (ValueError, OverflowError):  # a damaged line: rows of different lengths
            return None

    @cached_property
    def class_accuracy(self) -> npt.NDArray[np.float64] | None:
        """The pool's accuracy on the test images of each class, (classes,)."""
        if self.top_labels is None or self.summary is None:
            return None
        return self.top_labels.class_accuracy(len(self.summary.classes))

    def group_names(self, count: int) -> list[str]:
        """Names of `count` classes; numbers where they are groups of another kind."""
        names = self.summary.classes if self.summary else ()
        return list(names) if len(names) == count else [str(k) for k in range(count)]


def read_result(run: Run) -> Result:
    """What can be read of a run; what it lacks is listed, and never an error."""
    missing = []
    summary = None
    if run.summary_path.exists():
        try:
            summary = run.summary
        except InputError as error:
            missing.append(f"its numbers ({error})")
    elif run.trained:
        missing.append("an evaluation (calmix evaluate)")
    else:
        missing.append("the end of its training (calmix train resumes it)")
    if summary and not summary.corrupted:
        missing.append("corrupted test sets (calmix evaluate --corruptions)")
    history = run.history
    evidence = None
    if not (run.folder / FILE).exists():
        if not run.predictions_path("test").exists():
            missing.append("test predictions")
        elif not _is_whole(run.predictions_path("test")):
            missing.append("test predictions that can be read (calmix evaluate makes them again)")
        if not history:
            missing.append("its epochs")
        elif damaged := _damaged_lines(run.folder / "metrics.jsonl", len(history)):
            missing.append(f"some of its epochs ({damaged} lines of metrics.jsonl cannot be read)")
    else:
        try:
            evidence = read_evidence(run.folder)
        except InputError as error:
            missing.append(f"its evidence ({error})")
    result = Result(run, summary, history, tuple(missing))
    if evidence is not None:
        vars(result)["evidence"] = evidence  # it is read already
    return result


def _damaged_lines(path: Path, epochs: int) -> int:
    """Lines of a history that are no epochs."""
    with contextlib.suppress(OSError):
        return max(0, path.read_bytes().count(b"\n") - epochs)
    return 0


def _is_whole(path: Path) -> bool:
    """Whether every byte of an archive is as it was written."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except READ_ERRORS:
        return False


@dataclass(frozen=True, eq=False)
class Group:
    """Runs whose recipes differ in the seed alone; `differs` says how the recipe differs from others of the
    same data set, ensemble and augmentation."""

    recipe: Recipe
    results: tuple[Result, ...]
    differs: str = ""

    @property
    def augment(self) -> str:
        return self.recipe.augment

    @property
    def title(self) -> str:
        """Ensemble, augmentation, and what else tells it apart."""
        parts = (ENSEMBLES[self.recipe.ensemble].short, self.recipe.augmentation.title, self.differs)
        return ", ".join(filter(None, parts))

    @property
    def summaries(self) -> list[Summary]:
        return [result.summary for result in self.results if result.summary]


class Results(Sequence[Result]):
    """Runs in the order of data set, ensemble, augmentation and seed; of those with the same recipe, as in a
    folder of runs and its evidence, the one that has most."""

    def __init__(self, results: Iterable[Result]) -> None:
        by_recipe: dict[Recipe, Result] = {}
        for result in sorted(results, key=_completeness):
            by_recipe[result.recipe] = result
        self._results = sorted(by_recipe.values(), key=_order)

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        return self._results[place]

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def where(self, **fields: object) -> "Results":
        """The runs whose recipes have these values: `where(ensemble="deep", augment="mixup")`."""
        return Results(
            result for result in self if all(getattr(result.recipe, k) == v for k, v in fields.items())
        )

    def groups(self) -> list[Group]:
        """Runs that differ in the seed alone, together."""
        by_recipe: dict[Recipe, list[Result]] = {}
        for result in self:
            by_recipe.setdefault(dataclasses.replace(result.recipe, seed=0), []).append(result)
        differs = recipe_differences(list(by_recipe))
        return [Group(recipe, tuple(results), differs[recipe]) for recipe, results in by_recipe.items()]


def read_results(runs: Iterable[Run]) -> Results:
    return Results(read_result(run) for run in runs)


def _completeness(result: Result) -> tuple[bool, bool, int, bool, str]:
    summary, predictions = result.summary, result.run.predictions_path("test").exists()
    whole = bool(summary and summary.corrupted_scores())
    sets = sum(map(len, summary.corrupted.values())) if summary else 0
    return bool(summary), whole, sets, predictions, str(result.run.folder)


def _order(result: Result) -> tuple[object, ...]:
    recipe, known = result.recipe, AUGMENT_ORDER
    rank = known.index(recipe.augment) if recipe.augment in known else len(known)
    fields = sorted((recipe.flat() | {"seed": 0}).items())
    content = [(name, _number_first(value)) for name, value in fields]
    ensemble = list(ENSEMBLES).index(recipe.ensemble)
    return recipe.dataset, ensemble, rank, recipe.augment, content, recipe.seed, result.run.folder.name


def recipe_differences(recipes: Sequence[Recipe]) -> dict[Recipe, str]:
    """For each recipe the fields in which those of its data set, ensemble and augmentation differ."""
    alike: dict[tuple[str, str, str], list[Recipe]] = {}
    for recipe in recipes:
        alike.setdefault((recipe.dataset, recipe.ensemble, recipe.augment), []).append(recipe)
    texts: dict[Recipe, str] = {}
    for group in alike.values():
        values = [recipe.flat() for recipe in group]
        names = [
            n for n in dict.fromkeys(k for v in values for k in v) if len({str(v.get(n)) for v in values}) > 1
        ]
        for recipe, flat in zip(group, values, strict=True):
            texts[recipe] = ", ".join(f"{name.replace('_', ' ')} {_short(flat.get(name))}" for name in names)
    return texts


def _number_first(value: object) -> tuple[float, str]:
    """Values of a field in order: nothing, then numbers by size, then others as text."""
    if value is None:
        return -math.inf, ""
    return (float(value), "") if isinstance(value, int | float) else (math.inf, str(value))


def _short(value: object) -> str:
    if value is None:
        return "default"
    return f"{value:g}" if isinstance(value, float) else str(value)
