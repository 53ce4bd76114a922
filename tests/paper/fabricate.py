"""Evaluated runs with chosen accuracy and confidence, in no time."""

import dataclasses
import functools
import json

import torch

from calmix import run_folder
from calmix.corruptions import CORRUPTIONS
from calmix.evaluate import SEVERITIES, judge
from calmix.paper.methods import method
from calmix.predictions import Predictions, save_predictions

TYPES = CORRUPTIONS


def predictions(accuracy, confidence, *, members=2, size=2000, classes=4):
    """The first images are right, the rest wrong, all with the same confidence; the last class is hardest."""
    labels = torch.arange(size) * classes // size
    right = torch.arange(size) < round(accuracy * size)
    said = torch.where(right, labels, (labels + 1) % classes)
    probs = torch.full((size, classes), (1 - confidence) / (classes - 1))
    probs[torch.arange(size), said] = confidence
    return Predictions(probs.log().expand(members, -1, -1).contiguous(), labels)


@functools.cache
def judged(accuracy, confidence, size):
    return judge(predictions(accuracy, confidence, size=size), resamples=2)


def fabricate(
    out,
    ensemble,
    augment,
    *,
    accuracy=0.8,
    confidence=0.8,
    corrupted=None,
    temperature=1.0,
    dataset="cifar10",
    scale="paper",
    seed=0,
    mixed=None,
    **fields,
):
    """A run folder as training and evaluation leave it; `corrupted` is (accuracy, confidence)."""
    recipe = method(dataset, ensemble, augment, scale=scale, seed=seed)
    run = run_folder.create(dataclasses.replace(recipe, **fields), out)
    run.model.write_bytes(b"")
    run.predictions("test").parent.mkdir(exist_ok=True)
    held = predictions(accuracy, confidence)
    for what in ("validation", "test"):
        save_predictions(run.predictions(what), held.logits, held.labels)
    clean = judged(accuracy, confidence, len(held.labels))
    summary = {"clean": clean, "temperature": clean["pool"] | {"temperature": temperature}}
    if corrupted:
        held = predictions(*corrupted, size=200)
        row = judged(*corrupted, 200)
        row = row | {"temperature": row["pool"]}
        summary["corrupted"] = {name: {str(s): row for s in SEVERITIES} for name in TYPES}
        summary["cECE_temperature"] = 100 * row["pool"]["ece"]
        first, *others = (run.predictions(f"{name}-{severity}") for name in TYPES for severity in SEVERITIES)
        save_predictions(first, held.logits, held.labels)
        for path in others:
            path.hardlink_to(first)
    if mixed is not None:
        run_folder.write_json(run.mixed, mixed)
    line = {
        "member": 0,
        "epoch": 1,
        "accuracy": accuracy,
        "ece": 0.1,
        "gap_pool": 0.1,
        "loss": 0.2,
        "seconds": 2.5,
    }
    run.metrics.write_text(json.dumps(line) + "\n")
    run_folder.write_json(run.summary, summary)
    return run
