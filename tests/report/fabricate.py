"""Run folders with the files of finished runs and invented numbers, in no time."""

import json

import numpy as np
import torch

from calmix import run_folder
from calmix.evaluate import judge
from calmix.predictions import Predictions, save_predictions
from calmix.presets import preset

SHARPNESS = {"none": 1.6, "mixup": 0.5, "camixup": 0.9, "augmix": 1.2}
EPOCHS = 20


def fabricate(
    out, *, dataset="cifar10", ensemble="batch", augment="none", seed=0, corrupted=True, classes=None
):
    """A finished and evaluated run of four members on ten classes, or on those named."""
    recipe = preset(dataset, ensemble, augment, scale="paper", seed=seed)
    run = run_folder.create(recipe, out)
    run.predictions("test").parent.mkdir(exist_ok=True)
    count = len(classes) if classes else 10
    predictions = _predictions(SHARPNESS.get(augment, 1.0), seed, count)
    save_predictions(run.predictions("test"), predictions.logits, predictions.labels)
    clean = judge(predictions, resamples=20)
    summary = {"name": recipe.name, "clean": clean}
    summary["temperature"] = {"temperature": 1.1, "ece": 0.4 * clean["pool"]["ece"]}
    if classes:
        summary["classes"] = list(classes)
    if corrupted:
        summary |= _corruption(clean["pool"])
    run_folder.write_json(run.summary, summary)
    run.model.write_bytes(b"")
    _write_history(run, clean["pool"])
    if "camixup" in augment:
        often = np.linspace(0.95, 0.05, count)
        mixed = np.random.default_rng(seed).random((50, 4, count)) < often
        run_folder.write_json(run.mixed, mixed.astype(int).tolist())
    return run


def _predictions(sharpness, seed, classes):
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (300,), generator=draw)
    shared = 4 * torch.eye(classes)[labels] + 1.2 * torch.randn(300, classes, generator=draw)
    return Predictions(sharpness * (shared + 0.8 * torch.randn(4, 300, classes, generator=draw)), labels)


def _corruption(clean):
    corrupted = {}
    for place, name in enumerate(("fog", "snow")):
        corrupted[name] = {
            str(severity): {
                "pool": {
                    "accuracy": clean["accuracy"] - 0.05 * severity - 0.02 * place,
                    "ece": clean["ece"] + 0.02 * severity,
                }
            }
            for severity in range(1, 6)
        }
    rows = [row["pool"] for of_type in corrupted.values() for row in of_type.values()]
    accuracy, ece = (100 * float(np.mean([row[name] for row in rows])) for name in ("accuracy", "ece"))
    return {"corrupted": corrupted, "cA": accuracy, "cECE": ece}


def _write_history(run, clean):
    lines = [
        {
            "member": member,
            "epoch": epoch,
            "loss": 2.0 / epoch,
            "accuracy": clean["accuracy"] * (1 - 0.5 / epoch - 0.02 * member),
            "ece": clean["ece"] + 0.1 / epoch,
            "gap_pool": clean["gap"] - 0.1 / epoch,
            "gap_members": [clean["gap"]],
            "seconds": 1.0,
        }
        for member in range(run.streams)
        for epoch in range(1, EPOCHS + 1)
    ]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
