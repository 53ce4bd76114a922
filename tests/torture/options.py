"""Extreme values of every option: refused, or work begins; no traceback, no endless wait before it."""

import dataclasses
from pathlib import Path
from random import Random
from unittest import mock

from calmix.cli.train import NetworkFlags
from calmix.runs.launch import Machine
from calmix.runs.recipe import Recipe
from tests.torture.cases import case
from tests.torture.fuzz import run_main, samples

NUMBERS = (
    "0",
    "-1",
    "1",
    "3",
    "1e300",
    "-1e300",
    "nan",
    "inf",
    "100000000",
    "1000000000000",
    "9" * 400,
    "0.5",
    "1e-300",
)
TEXTS = ("", "x", "none", "[red]", "\x1b[31m", "\udcff", "../..", "a" * 5000, "{", "-", "é", "null")
RECIPE = [f.name for f in dataclasses.fields(Recipe) if f.name not in ("network_options", "scale")]
TRAIN = [
    *RECIPE,
    *(f.name for f in dataclasses.fields(NetworkFlags)),
    *(f.name for f in dataclasses.fields(Machine)),
]
OPTIONS = {
    "train": [*TRAIN, "augment", "member", "jobs"],
    "audit": ["resamples", "seed", "values", "fail-if", "class-names"],
    "corrupt": ["dataset", "names", "seed", "jobs"],
    "evaluate": ["device", "corrupted", "data-root"],
    "data": ["download", "data-root"],
    "reproduce": ["dataset", "scale", "seeds", "shards", "jobs", "cpus", "tflops", "precision"],
    "report": ["out"],
}


class Begun(SystemExit):
    """The work would begin now."""


def begin(*_: object, **__: object) -> None:
    raise Begun(0)


@case("options", weight=2)
def options(seed: int) -> None:
    chosen = Random(seed)
    command = chosen.choice(["train"] * 6 + list(OPTIONS))
    words: list[object] = [command]
    for name in chosen.sample(OPTIONS[command], k=min(len(OPTIONS[command]), chosen.choice((1, 1, 1, 2, 3)))):
        words += [f"--{name.replace('_', '-')}", chosen.choice(chosen.choice((NUMBERS, TEXTS)))]
    folder = samples()
    (run,) = (folder / "runs").iterdir()
    words += {
        "train": ["--ensemble", chosen.choice(("single", "batch", "deep")), "--out", folder / "out"],
        "audit": [folder / "predictions.npz", "--json"],
        "corrupt": ["--out", folder / "out-corrupted"],
        "evaluate": [run],
        "data": [],
        "reproduce": ["toy", "--dry-run", "--out", folder / "out"],
        "report": [run],
    }[command]
    if command == "corrupt" and "--dataset" not in words:
        words += ["--dataset", "digits"]
    with (
        mock.patch("calmix.runs.launch._train_members", begin),
        mock.patch("calmix.cli.train.run_plan", begin),
        mock.patch("calmix.cli.corrupt.write_corrupted", begin),
        mock.patch("calmix.cli.report.write_report", begin),
        mock.patch("calmix.data.download", begin),
        mock.patch("calmix.study.forecast.forecast", begin),
    ):
        run_main(*words)
    assert Path(folder).exists()
