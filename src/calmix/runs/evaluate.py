"""Evaluation of a run: every metric of pool and members, clean and corrupted, as its `Summary`."""

import contextlib
import dataclasses
import functools
import hashlib
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from calmix import data, interrupts, metrics
from calmix.calibrate import Temperature, fit_temperature
from calmix.corruptions import ALL_CORRUPTIONS, SEVERITIES, frost_source
from calmix.data.corrupted import read_corrupted
from calmix.data.corrupted_cache import CorruptedCache
from calmix.errors import InputError, one_of
from calmix.locks import is_read_only
from calmix.predictions import Predictions, pool, save_predictions
from calmix.progress import Finished, Message, Progress, Reporter, ignore
from calmix.records import write_json
from calmix.runs.build import Splits, load_splits, subset
from calmix.runs.folder import Run, lock
from calmix.runs.influence import corrupted_influences, write_influences
from calmix.runs.predict import predict_logits
from calmix.runs.summary import (
    CorruptionSource,
    MemberScores,
    PoolScores,
    ScaledScores,
    Summary,
    TestScores,
)

CORRUPTION_SEED = 0  # like the official files, the corrupted test set is the same for every run


def evaluate(
    run: Run,
    *,
    corruptions: Iterable[str] = (),
    corrupted_folder: Path | None = None,
    reporter: Reporter = ignore,
    data_root: Path | None = None,
    device: str = "cpu",
    wait: bool = False,
) -> Summary:
    """Predict and compute what is missing, and write `summary.json`.

    Corrupted images come from `corrupted_folder` where given (official files, or written by `calmix
    corrupt`), and are otherwise generated. What an earlier call computed of a type from the same source is
    kept; another source replaces it. Where another process has the run, `wait` waits for it. In a folder that
    cannot be written, nothing is kept.
    """
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {device!r} is not available on this machine: {reason}") from None
    sources = {name: corruption_source(name, corrupted_folder) for name in corruptions}
    with lock(run.folder, wait=wait):
        return _Evaluation(run, sources, corrupted_folder, reporter, data_root, device).summary()


def corruption_source(name: str, folder: Path | None) -> CorruptionSource:
    """Where the images of a corruption would come from."""
    one_of("corruption", name, ALL_CORRUPTIONS)
    if folder is not None:
        return CorruptionSource("folder", digest=_digest(folder / f"{name}.npy"))
    frost = frost_source().split(" in ")[0] if name == "frost" else None
    return CorruptionSource("generated", seed=CORRUPTION_SEED, frost=frost)


def _digest(path: Path) -> str:
    """Of a file's size and of a megabyte at either end: gigabytes of pixels are not read twice."""
    try:
        with open(path, "rb") as file:
            size = path.stat().st_size
            digest = hashlib.sha256(f"{size} ".encode() + file.read(2**20))
            file.seek(max(0, size - 2**20))
            digest.update(file.read(2**20))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    return digest.hexdigest()[:16]


def why_not_corrupted(part: data.Examples) -> str:
    """Why the examples of a part cannot be corrupted; empty where they can."""
    kind, shape = data.kind_of(part), part.shape
    if kind != "image":
        return f"has {kind} examples of shape {shape}, and corruptions are of uint8 images"
    if shape[0] not in (1, 3) or min(shape[1:]) < 8:
        return f"has images of shape {shape}: corruptions need 1 or 3 channels and at least 8 x 8 pixels"
    return ""


@dataclasses.dataclass(frozen=True)
class _Evaluation:
    """One evaluation; data and model are loaded when something has to be predicted."""

    run: Run
    sources: dict[str, CorruptionSource]
    corrupted_folder: Path | None
    reporter: Reporter
    data_root: Path | None
    device: str
    unkept: list[bool] = dataclasses.field(default_factory=list)

    def summary(self) -> Summary:
        summary = self._stored() or self._clean()
        self._drop_other_sources(summary)
        missing = [
            (name, severity)
            for name in self.sources
            for severity in SEVERITIES
            if severity not in summary.corrupted.get(name, {})
            or not zipfile.is_zipfile(self.run.predictions_path(f"{name}-{severity}"))
        ]
        if missing and (reason := why_not_corrupted(self.splits.test)):
            raise InputError(f"corruptions: {self.run.recipe.dataset} {reason}")
        if missing:
            with self._keeping():
                self.run.influences_path.unlink(missing_ok=True)
        for done, (name, severity) in enumerate(missing, start=1):
            interrupts.check()
            what = f"{name}-{severity}"
            scores = compute_metrics(self._predictions(what), temperature=self.temperature, members=False)
            summary.corrupted.setdefault(name, {})[severity] = scores
            self.reporter(Progress("evaluating", done, len(missing), what))
        if missing:
            self._write_summary(summary)
            if summary.corrupted_scores() and not self.unkept:
                write_influences(self.run.influences_path, corrupted_influences(self._predictions))
            self.reporter(Finished("evaluating", f"{len(missing)} corrupted test sets"))
        return summary

    def _drop_other_sources(self, summary: Summary) -> None:
        """Remove what comes from another source, or from one that the summary does not name.

        The summary names a source only while all predictions of its type are from there, also if this is
        interrupted.
        """
        other = [name for name, source in self.sources.items() if summary.sources.get(name) != source]
        if not other:
            return
        for name in other:
            summary.corrupted.pop(name, None)
            summary.sources.pop(name, None)
        self._write_summary(summary)
        for name in other:
            for severity in SEVERITIES:
                with self._keeping():
                    self.run.predictions_path(f"{name}-{severity}").unlink(missing_ok=True)
        summary.sources.update({name: self.sources[name] for name in other})
        self._write_summary(summary)

    def _stored(self) -> Summary | None:
        """The summary of an earlier evaluation, where it can be read and its predictions are there."""
        paths = [self.run.predictions_path(what) for what in ("validation", "test")]
        try:
            if not all(path.exists() for path in (self.run.summary_path, *paths)):
                return None
            summary = self.run.summary
        except InputError as error:
            self.reporter(Message(f"{error}; it is computed again"))
            return None
        # What cannot be read is predicted again, and its numbers are computed again.
        whole = [self._kept(what) is not None for what in ("validation", "test")]
        return summary if all(whole) else None

    def _clean(self) -> Summary:
        predictions = self._predictions("test")
        summary = Summary(
            name=self.run.recipe.name,
            classes=self.splits.classes,
            clean=compute_metrics(predictions, temperature=self.temperature, intervals=True),
            temperature=None if self.temperature is None else float(self.temperature.temperature),
        )
        self._write_summary(summary)
        return summary

    def _write_summary(self, summary: Summary) -> None:
        with self._keeping():
            write_json(self.run.summary_path, summary)

    @contextlib.contextmanager
    def _keeping(self) -> Iterator[None]:
        """What the block writes is kept, or not in a folder that cannot be written, which is said once."""
        try:
            yield
        except OSError as error:
            if not is_read_only(error):
                raise
            self.unkept.append(True)
            if len(self.unkept) == 1:
                self.reporter(Message(f"{self.run.folder} cannot be written: nothing is kept there"))

    @functools.cached_property
    def splits(self) -> Splits:
        return load_splits(self.run.recipe, self.data_root)

    @functools.cached_property
    def corrupted(self) -> CorruptedCache:
        test = self.splits.test
        part = test.take(subset(test.labels, self.run.recipe.corruption_size))
        return CorruptedCache(part, seed=CORRUPTION_SEED)

    @functools.cached_property
    def model(self) -> nn.Module:
        return self.run.model().to(self.device)

    @functools.cached_property
    def temperature(self) -> Temperature | None:
        """The pool's temperature on validation data; none where the network was trained on it."""
        validation = self._predictions("validation")
        if self.run.recipe.train_on_validation:
            self.reporter(Message("no temperature, because it was trained on its validation images"))
            return None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert validation.labels is not None
            fitted = fit_temperature(validation.logits, validation.labels, order="pool")
        for warning in caught:
            self.reporter(Message(str(warning.message)))
        return fitted

    def _predictions(self, what: str) -> Predictions:
        """Kept predictions, or new ones."""
        if (kept := self._kept(what)) is not None:
            return kept
        path, part = self.run.predictions_path(what), self._part(what)
        logits = predict_logits(self.model, part, seed=self.run.recipe.seed, device=self.device)
        predictions = Predictions(logits, part.labels)
        with self._keeping():
            path.parent.mkdir(exist_ok=True)
            save_predictions(path, logits, part.labels)
            predictions = self.run.predictions(what)
        return predictions

    def _kept(self, what: str) -> Predictions | None:
        """Predictions of an earlier evaluation; None where there are none that can be read."""
        path = self.run.predictions_path(what)
        if not path.exists():
            return None
        try:
            predictions = self.run.predictions(what)
            if len(predictions.logits) != self.run.recipe.members:
                members = f"{len(predictions.logits)} members instead of {self.run.recipe.members}"
                raise InputError(f"{path} has {members}")
        except InputError as error:
            self.reporter(Message(f"{error}; it is predicted again"))
            return None
        return predictions

    def _part(self, what: str) -> data.Examples:
        splits = self.splits
        if what in ("validation", "test"):
            return splits.validation if what == "validation" else splits.test
        name, severity = what.rsplit("-", 1)
        if self.corrupted_folder is None:
            return self.corrupted(name, int(severity))
        kept = subset(splits.test.labels, self.run.recipe.corruption_size)
        index, labels = splits.test_index[kept], splits.test.labels[kept]
        return read_corrupted(self.corrupted_folder, name, int(severity), index, labels)


def compute_metrics(
    predictions: Predictions,
    *,
    temperature: Temperature | None = None,
    members: bool = True,
    intervals: bool = False,
) -> TestScores:
    """Every metric of the pool, with its interval where asked for, a few of each member, and diversity."""
    logits, labels = predictions.logits.double(), predictions.labels
    if labels is None:
        raise InputError("predictions have no labels: there is nothing to compute metrics from")
    pooled = pool(logits)  # in float32 a confident mistake would have probability 0
    scores = _scores(PoolScores, pooled, labels)
    return TestScores(
        examples=len(labels),
        pool=scores,
        members=tuple(_scores(MemberScores, m.softmax(-1), labels) for m in logits) if members else (),
        diversity=metrics.diversity(predictions.logits) if members and len(logits) > 1 else None,
        scaled=None if temperature is None else _scores(ScaledScores, temperature.apply(logits), labels),
        intervals=_intervals(scores, pooled, labels) if intervals else {},
    )


def _scores(kind: Any, probs: Any, labels: Tensor) -> Any:
    names = [field.name for field in dataclasses.fields(kind)]
    return kind(**{name: metrics.SCALARS[name](probs, labels) for name in names})


def _intervals(scores: PoolScores, pooled: Tensor, labels: Tensor) -> dict[str, tuple[float, float]]:
    names = list(metrics.SCALARS)
    resampled = metrics.bootstrap_each([metrics.SCALARS[name] for name in names], pooled, labels)
    # The interval of SKCE on many examples is that of a cheaper, noisier estimator: it is moved to ours.
    moved = {n: getattr(scores, n) - i.value for n, i in zip(names, resampled, strict=True)}
    return {
        name: (interval.low + moved[name], interval.high + moved[name])
        for name, interval in zip(names, resampled, strict=True)
    }
