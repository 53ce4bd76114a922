"""Run folders with the files of finished runs and invented numbers, in no time."""

import json

import numpy as np
import torch

from calmix import run_folder
from calmix.evaluate import judge
from calmix.predictions import Predictions, pool, save_predictions
from calmix.presets import preset
from calmix.recipe import Recipe

SHARPNESS = {"none": 1.6, "mixup": 0.5, "camixup": 0.9, "augmix": 1.2}


def fabricate(
    out, *, dataset="cifar10", ensemble="batch", augment="none", seed=0, corrupted=True, classes=None, epochs=5
):
    """A finished and evaluated run of a 4-member ensemble on 10 classes, or on those named."""
    recipe = preset(dataset, ensemble, augment, scale="paper", seed=seed)
    run = run_folder.create(Recipe.from_json(json.loads(recipe.to_json()) | {"epochs": epochs}), out)
    count = len(classes) if classes else 10
    predictions = _predictions(SHARPNESS.get(augment, 1.0), seed, count)
    save_predictions(run.predictions("test"), predictions.logits, predictions.labels)
    summary = {"name": recipe.name, "clean": judge(predictions, intervals=False)}
    summary["temperature"] = {"temperature": 1.1, "ece": 0.4 * summary["clean"]["pool"]["ece"]}
    if classes:
        summary["classes"] = list(classes)
    if corrupted:
        summary |= _corruption(summary["clean"]["pool"])
    run_folder.write_json(run.summary, summary)
    run.model.write_bytes(b"")
    _write_history(run, summary["clean"]["pool"], epochs)
    if "camixup" in augment:
        draw = np.random.default_rng(seed)
        often = np.linspace(0.95, 0.05, count)
        run_folder.write_json(run.mixed, (draw.random((epochs * 10, 4, count)) < often).astype(int).tolist())
    return run


def _predictions(sharpness, seed, classes):
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (300,), generator=draw)
    shared = 2.5 * torch.eye(classes)[labels] + 0.8 * torch.randn(300, classes, generator=draw)
    return Predictions(sharpness * (shared + 0.8 * torch.randn(4, 300, classes, generator=draw)), labels)


def _corruption(pool_numbers):
    corrupted = {}
    for place, name in enumerate(("fog", "snow")):
        corrupted[name] = {
            str(severity): {
                "pool": {
                    "accuracy": pool_numbers["accuracy"] - 0.05 * severity - 0.02 * place,
                    "ece": pool_numbers["ece"] + 0.02 * severity,
                },
                "temperature": {"ece": 0.01 * severity},
            }
            for severity in range(1, 6)
        }
    rows = [row["pool"] for of_type in corrupted.values() for row in of_type.values()]
    means = {key: 100 * float(np.mean([row[name] for row in rows])) for key, name in (("cA", "accuracy"), ("cECE", "ece"))}
    return {"corrupted": corrupted, **means}


def _write_history(run, numbers, epochs):
    lines = []
    for member in range(run.streams):
        for epoch in range(1, epochs + 1):
            lines.append(
                {
                    "member": member,
                    "epoch": epoch,
                    "loss": 2.0 / epoch,
                    "accuracy": numbers["accuracy"] * epoch / epochs,
                    "ece": numbers["ece"] + 0.1 / epoch,
                    "gap_pool": numbers["gap"] - 0.1 / epoch,
                    "gap_members": [0.0],
                    "seconds": 1.0,
                }
            )
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))


__all__ = ["fabricate", "pool"]
