"""Predictions of a run -> numbers: every metric for members and pool, clean and corrupted.

`summary.json` holds `clean` and, with corruptions, `corrupted[name][severity]`, each with `pool`, `members`
and `diversity`; numbers stand plainly beside their `<name>_interval`. `cA` and `cECE` are the means over
severities and the types last asked for, in per cent like the paper's.
"""

import copy
import json
import statistics
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from calmix import data, metrics, run_folder
from calmix.build import Splits, load_splits, subset
from calmix.calibrate import Temperature, fit_temperature
from calmix.data.corrupted_examples import Corrupted, read_corrupted
from calmix.errors import InputError
from calmix.launch import load_model
from calmix.predict import predict
from calmix.predictions import Predictions, load_predictions, pool, save_predictions
from calmix.progress import Listener, Step
from calmix.run_folder import Run

METRICS = metrics.SCALARS
SEVERITIES = range(1, 6)
FEWER_RESAMPLES = 200  # behind the intervals of each of 75 corrupted sets
CORRUPTION_SEED = 0  # like the official files, the corrupted test set is the same for every run


def evaluate(
    run: Run,
    *,
    listener: Listener,
    root: Path | None = None,
    corruptions: Iterable[str] = (),
    corrupted_root: Path | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Predict what is not predicted yet, judge all of it, and write `summary.json`.

    Corrupted images come from `corrupted_root` where given (official or written by `calmix corrupt`), and are
    otherwise made on the fly. What an earlier call computed is kept.
    """
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"--device {device} cannot be had here: {str(error).splitlines()[0]}") from None
    with run_folder.lock(run.folder):
        before = _read_summary(run)
        summary = copy.deepcopy(before)
        _complete(run, summary, tuple(corruptions), listener, root, corrupted_root, device)
        if summary != before:
            run_folder.write_json(run.summary, summary)
    return summary


def _read_summary(run: Run) -> dict[str, Any]:
    if not run.summary.exists():
        return {}
    summary = run_folder.read_json(run.summary)
    if not isinstance(summary, dict):
        raise InputError(f"{run.summary} holds no object; delete it, and it is made again")
    return summary


def _complete(
    run: Run,
    summary: dict[str, Any],
    names: tuple[str, ...],
    listener: Listener,
    root: Path | None,
    corrupted_root: Path | None,
    device: str,
) -> None:
    """Predict and judge what `summary` lacks."""
    wanted = ["validation", "test", *(f"{name}-{severity}" for name in names for severity in SEVERITIES)]
    missing = [what for what in wanted if not run.predictions(what).exists()]
    if missing or not summary:
        splits = load_splits(run.recipe, root)
        _predict(run, splits, missing, corrupted_root, listener, device)
        summary |= {"name": run.recipe.name, "recipe": json.loads(run.recipe.to_json())}
        summary["classes"] = list(splits.classes)
    fitted = _fit(run, listener)
    if "clean" not in summary:
        held = load_predictions(run.predictions("test"))
        summary["clean"], summary["temperature"] = judge(held), _scaled(fitted, held)
    corrupted = summary.setdefault("corrupted", {}) if names else summary.get("corrupted", {})
    pairs = [(name, severity) for name in names for severity in SEVERITIES]
    for done, (name, severity) in enumerate(pairs, start=1):
        rows = corrupted.setdefault(name, {})
        if str(severity) not in rows:
            held = load_predictions(run.predictions(f"{name}-{severity}"))
            judged = judge(held, resamples=FEWER_RESAMPLES)
            rows[str(severity)] = judged | {"temperature": _scaled(fitted, held)}
        listener.step(Step("judging", done, len(pairs)))
    if names:
        rows = [row for name in names for row in corrupted[name].values()]
        summary["cA"] = 100 * statistics.fmean(row["pool"]["accuracy"] for row in rows)
        summary["cECE"] = 100 * statistics.fmean(row["pool"]["ece"] for row in rows)
        if fitted:
            summary["cECE_temperature"] = 100 * statistics.fmean(row["temperature"]["ece"] for row in rows)


def judge(predictions: Predictions, *, resamples: int = 1000) -> dict[str, Any]:
    """Every metric of the pool with its interval, a few of each member, and how far the members differ."""
    labels = predictions.labels
    pooled = pool(predictions.logits.double())  # in float32 a sure mistake would have probability 0
    of_pool: dict[str, Any] = {}
    intervals = metrics.bootstrap_each(list(METRICS.values()), pooled, labels, resamples=resamples)
    for (name, metric), found in zip(METRICS.items(), intervals, strict=True):
        # Of many examples the kernel error's interval is that of a cheaper, noisier estimator: it is put
        # around the better one.
        value = of_pool[name] = metric(pooled, labels)
        of_pool[f"{name}_interval"] = [value - (found.value - found.low), value + (found.high - found.value)]
    few = ("accuracy", "nll", "brier", "ece", "gap")
    members = [
        {name: METRICS[name](logits.softmax(-1), labels) for name in few}
        for logits in predictions.logits.double()
    ]
    judged: dict[str, Any] = {"examples": len(labels), "pool": of_pool, "members": members}
    if len(members) > 1:
        spread = metrics.diversity(predictions.logits)
        judged["diversity"] = {"disagreement": spread.disagreement, "kl": spread.kl, "cosine": spread.cosine}
    return judged


def _fit(run: Run, listener: Listener) -> Temperature | None:
    """The pool's temperature on validation data; none where the network was trained on it."""
    if run.recipe.train_on_validation:
        listener.note(f"{run.folder.name}: no temperature, because it was trained on its validation images")
        return None
    validation = load_predictions(run.predictions("validation"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fitted = fit_temperature(validation.logits, validation.labels, order="pool")
    for warning in told:
        listener.note(f"{run.folder.name}: {warning.message}")
    return fitted


def _scaled(fitted: Temperature | None, given: Predictions) -> dict[str, float] | None:
    """What the temperature makes of predictions."""
    if fitted is None:
        return None
    probs = fitted.apply(given.logits.double())
    numbers = {name: METRICS[name](probs, given.labels) for name in ("accuracy", "nll", "ece", "dce", "gap")}
    return {"temperature": float(fitted.temperature), **numbers}


def _predict(
    run: Run,
    splits: Splits,
    missing: list[str],
    corrupted_root: Path | None,
    listener: Listener,
    device: str,
) -> None:
    if not missing:
        return
    model = load_model(run, splits).to(device)
    run.predictions(missing[0]).parent.mkdir(exist_ok=True)
    for done, what in enumerate(missing, start=1):
        part: data.Examples = splits.validation if what == "validation" else splits.test
        if what not in ("validation", "test"):
            name, severity = what.rsplit("-", 1)
            part = _corrupted(run, splits, name, int(severity), corrupted_root)
        logits = predict(model, part, seed=run.recipe.seed, device=device)
        save_predictions(run.predictions(what), logits, part.labels)
        listener.step(Step("predicting", done, len(missing), what))


def _corrupted(run: Run, splits: Splits, name: str, severity: int, folder: Path | None) -> data.Examples:
    """The run's test images, or a subset of them, under a corruption: read from `folder` or made as
    needed."""
    kept = subset(splits.test.labels, run.recipe.corruption_size)
    if folder is not None:
        return read_corrupted(folder, name, severity, splits.test_index[kept], splits.test.labels[kept])
    return Corrupted(splits.test.take(kept), name, severity, seed=CORRUPTION_SEED)
