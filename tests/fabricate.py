"""Run folders as training and evaluation leave them, with chosen numbers, in no time."""

import functools

import numpy as np
import torch

from calmix.corruptions import CORRUPTIONS, SEVERITIES
from calmix.predictions import Predictions, save_predictions
from calmix.records import write_json
from calmix.runs import folder
from calmix.runs.evaluate import compute_metrics
from calmix.runs.folder import Epoch, write_epochs
from calmix.runs.influence import corrupted_influences, write_influences
from calmix.runs.presets import preset
from calmix.runs.summary import ScaledScores, Summary

FEW = 200  # images under each corruption


def constant_predictions(accuracy, confidence, *, members=2, size=2000, classes=4):
    """The first images are right, the others wrong, all with one confidence; the last class is hardest."""
    labels = torch.arange(size) * classes // size
    right = torch.arange(size) < round(accuracy * size)
    top = torch.where(right, labels, (labels + 1) % classes)
    probs = torch.full((size, classes), (1 - confidence) / (classes - 1))
    probs[torch.arange(size), top] = confidence
    return Predictions(probs.log().expand(members, -1, -1).contiguous(), labels)


def random_predictions(sharpness=1.0, *, seed=0, members=4, size=1000, classes=10):
    """Members that see one truth through noise of their own; the sharper, the more confident."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (size,), generator=draw)
    shared = 4 * torch.eye(classes)[labels] + 1.4 * torch.randn(size, classes, generator=draw)
    return Predictions(
        sharpness * (shared + 0.8 * torch.randn(members, size, classes, generator=draw)), labels
    )


def fabricate(
    out,
    ensemble="batch",
    augment="none",
    *,
    accuracy=0.8,
    confidence=0.8,
    test=None,
    corrupted=None,
    temperature=1.0,
    mixed=None,
    classes=(),
    history=1,
    dataset="cifar10",
    scale="paper",
    seed=0,
    **fields,
):
    """A finished and evaluated run.

    Test predictions have the accuracy and confidence given, or are `test`. `corrupted` is (accuracy,
    confidence) of all corrupted test sets, or a function of type and severity that gives them. `mixed` is
    (epochs, members, classes) of 0 and 1; otherwise there are `history` epochs.
    """
    run = folder.create(preset(dataset, ensemble, augment, scale=scale, seed=seed).replace(**fields), out)
    run.model_path.write_bytes(b"")
    run.predictions_path("test").parent.mkdir(exist_ok=True)
    if test is None:
        members = min(2, run.recipe.members)
        test = constant_predictions(accuracy, confidence, members=members)
        clean = _scores(accuracy, confidence, members)
    else:
        clean = compute_metrics(test)
    for what in ("validation", "test"):
        save_predictions(run.predictions_path(what), test.logits, test.labels)
    clean = _at_temperature(clean)
    sets = _corrupted(run, corrupted) if corrupted else {}
    if sets:
        write_influences(run.influences_path, corrupted_influences(run.predictions))
    summary = Summary(run.recipe.name, tuple(classes), clean, temperature, sets)
    write_json(run.summary_path, summary)
    write_epochs(run.folder / "metrics.jsonl", _epochs(run.recipe, clean.pool, mixed, history))
    return run


@functools.cache
def _scores(accuracy, confidence, members, size=2000):
    return compute_metrics(constant_predictions(accuracy, confidence, members=members, size=size))


def _at_temperature(scores):
    """Temperature 1 changes nothing."""
    values = {name: getattr(scores.pool, name) for name in ScaledScores.__dataclass_fields__}
    return type(scores)(**{**vars(scores), "scaled": ScaledScores(**values)})


def _corrupted(run, corrupted):
    """Test sets of equal accuracy and confidence share one file."""
    sets, paths = {name: {} for name in CORRUPTIONS}, {}
    members = min(2, run.recipe.members)
    for name in CORRUPTIONS:
        for severity in SEVERITIES:
            pair = corrupted(name, severity) if callable(corrupted) else corrupted
            path = run.predictions_path(f"{name}-{severity}")
            if pair in paths:
                path.hardlink_to(paths[pair])
            else:
                predictions = constant_predictions(*pair, members=members, size=FEW)
                save_predictions(path, predictions.logits, predictions.labels)
            paths[pair] = path
            sets[name][severity] = _at_temperature(_scores(*pair, members, FEW))
    return sets


def _epochs(recipe, scores, mixed, history):
    """Curves that end near the test scores; the members of a deep ensemble differ a little."""
    for member in range(recipe.streams):
        for epoch in range(1, 1 + (history if mixed is None else len(mixed))):
            of_stream = None
            if mixed is not None:
                rows = np.asarray(mixed[epoch - 1])
                rows = rows[[member % len(rows)]] if recipe.streams > 1 else rows
                of_stream = tuple(tuple(int(on) for on in row) for row in rows)
            yield Epoch(
                member=member,
                epoch=epoch,
                loss=0.2 * history / epoch,
                seconds=2.5,
                accuracy=scores.accuracy * (1 - 0.3 / epoch - 0.01 * member),
                ece=scores.ece + 0.1 / epoch,
                gap_pool=scores.gap - 0.1 / epoch,
                gap_members=(scores.gap,),
                mixed=None if of_stream is None else float(np.mean(of_stream)),
                mixed_classes=of_stream,
            )
