"""Every file that is read, mutated: the reader returns or raises `InputError`, and runs no code in it."""

import contextlib
import functools
import io
import json
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from random import Random

import numpy as np
import torch

import calmix
from calmix import data
from calmix.cli import main
from calmix.cli.evaluate import print_summary
from calmix.data.corrupted import corrupted_labels, open_corrupted, write_corrupted
from calmix.errors import InputError
from calmix.progress import ignore
from calmix.runs.build import check_build, load_splits
from calmix.runs.command import train_command
from calmix.runs.evaluate import evaluate
from calmix.runs.folder import Run, find_runs, open_run, read_recipe
from calmix.study.evidence import keep_evidence
from calmix.study.results import read_result
from tests.scenarios import Stop, StopAt, tiny, trained
from tests.torture import mutations
from tests.torture.cases import case, expect
from tests.torture.runs import SMALL, WORK

TABLES = ("csv", "jsonl", "parquet")


@functools.cache
def samples() -> Path:
    """One good file of every kind, made once."""
    WORK.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=WORK, prefix="samples-"))
    recipe = tiny("batch", "camixup", **SMALL)
    run = trained(recipe, folder / "runs")
    evaluate(run, corruptions=["contrast"])
    with contextlib.suppress(Stop):
        trained(recipe, folder / "started", reporter=StopAt(3), save_seconds=0.0)
    keep_evidence(read_result(run), folder / "evidence")
    predictions = run.predictions("test")
    logits, labels = predictions.logits, predictions.labels
    shutil.copy(run.predictions_path("test"), folder / "predictions.npz")
    np.save(folder / "logits.npy", logits.numpy())
    np.save(folder / "labels.npy", labels.numpy())
    probs = calmix.pool(logits).numpy()
    rows = [",".join(["label", *map(str, range(10))])]
    rows += [
        ",".join([str(int(y)), *(f"{p:.6f}" for p in row)]) for y, row in zip(labels, probs, strict=True)
    ]
    (folder / "predictions.csv").write_text("\n".join(rows))
    lines = [{"label": int(y), "probs": row.tolist()} for y, row in zip(labels, probs, strict=True)]
    (folder / "predictions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with contextlib.suppress(ImportError):
        import pyarrow
        from pyarrow import parquet

        columns = {"label": labels.numpy()} | {str(k): probs[:, k] for k in range(10)}
        parquet.write_table(pyarrow.table(columns), folder / "predictions.parquet")
    for method in ("temperature", "vector", "isotonic"):
        calmix.fit_calibrator(logits, labels, method=method).save(folder / f"{method}.json")
    test = data.load("digits").test
    images = test.inputs[:10]
    write_corrupted(images, test.labels[:10], folder / "corrupted", names=["contrast"])
    return folder


@contextlib.contextmanager
def silent():
    """Nothing is printed, and no warning is an error."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield out


def run_main(*words: object) -> None:
    """A command that must exit with 0, 1 or 2 and print no traceback."""
    code: object = None
    with silent() as out:
        try:
            main([str(word) for word in words])
        except SystemExit as error:
            code = error.code
    expect(code in (0, 1, 2), f"exit code {code}")
    expect("Traceback" not in out.getvalue(), f"traceback: {out.getvalue()[-300:]}")


@contextlib.contextmanager
def changed_run(name: str, mutate, chosen: Random, *, source: str = "runs"):
    """A copy of a run with one file changed."""
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        (original,) = (samples() / source).iterdir()
        copy = Path(shutil.copytree(original, Path(folder) / "runs" / original.name))
        (copy / name).write_bytes(mutate((copy / name).read_bytes(), chosen))
        yield copy


def fuzz(name: str, *, weight: float):
    """Register a reader: input errors are fine."""

    def register(function):
        def run(seed: int) -> None:
            samples()
            with contextlib.suppress(InputError), silent():
                function(Random(seed))

        return case(f"fuzz {name}", weight=weight)(run)

    return register


@fuzz("recipe.json", weight=1)
def fuzz_recipe(chosen: Random) -> None:
    with changed_run("recipe.json", mutations.mutated_json, chosen) as folder:
        find_runs([folder.parent], reporter=ignore)
        recipe = read_recipe(folder / "recipe.json")
        assert recipe.name
        train_command(recipe)
        check_build(recipe, load_splits(recipe, folder))


@fuzz("summary.json", weight=1)
def fuzz_summary(chosen: Random) -> None:
    with changed_run("summary.json", mutations.mutated_json, chosen) as folder:
        run = open_run(folder)
        result = read_result(run)
        if result.summary:
            print_summary(run, result.summary)
            result.summary.numbers()
        if chosen.random() < 0.2:
            run_main("evaluate", folder, "--json")
        if chosen.random() < 0.05:
            run_main("report", folder.parent, "--out", folder / "page.html")


@fuzz("metrics.jsonl", weight=1)
def fuzz_history(chosen: Random) -> None:
    with changed_run("metrics.jsonl", mutations.mutated_lines, chosen) as folder:
        result = read_result(open_run(folder))
        assert result.mixed is None or result.mixed.ndim == 2
        assert (result.seconds, result.last_losses) != (0, 0)
        if chosen.random() < 0.05:
            run_main("report", folder.parent, "--out", folder / "page.html")


@fuzz("checkpoint.pt", weight=1)
def fuzz_checkpoint(chosen: Random) -> None:
    with changed_run("checkpoint.pt", mutations.mutated_checkpoint, chosen, source="started") as folder:
        if chosen.random() < 0.5:
            (folder / "checkpoint.previous.pt").unlink(missing_ok=True)
        with contextlib.suppress(Stop):
            trained(open_run(folder).recipe, folder.parent, reporter=StopAt(2))


@fuzz("model.safetensors", weight=1)
def fuzz_model(chosen: Random) -> None:
    with changed_run("model.safetensors", mutations.mutated_safetensors, chosen) as folder:
        open_run(folder).model()


@fuzz("evidence.npz", weight=1)
def fuzz_evidence(chosen: Random) -> None:
    with changed_run("evidence.npz", mutations.mutated_npz, chosen, source="evidence") as folder:
        result = read_result(open_run(folder))
        assert result.mixed is None or result.mixed.ndim == 2
        assert (result.seconds, result.last_losses, result.class_accuracy) != (0, 0, 0)
        if result.top_labels is not None:
            result.influence("ece")
        if chosen.random() < 0.03:
            run_main("report", folder.parent, "--out", folder / "page.html")


@fuzz("run predictions", weight=0.5)
def fuzz_run_predictions(chosen: Random) -> None:
    """Damaged predictions are made again by an evaluation."""
    with changed_run("predictions/test.npz", mutations.mutated_bytes, chosen) as folder:
        before = (next((samples() / "runs").iterdir()) / "predictions/test.npz").read_bytes()
        run = open_run(folder)
        assert read_result(run).run is run
        evaluate(run)
        same = torch.equal(run.predictions("test").logits, Run(folder, run.recipe).predictions("test").logits)
        expect(same, "predictions differ")
        if (folder / "predictions/test.npz").read_bytes() != before:
            run.predictions("test")


PREDICTIONS = {
    "npz": ("predictions.npz", mutations.mutated_npz),
    "npy": ("logits.npy", mutations.mutated_npy),
    "csv": ("predictions.csv", mutations.mutated_csv),
    "jsonl": ("predictions.jsonl", mutations.mutated_lines),
    "parquet": ("predictions.parquet", mutations.mutated_bytes),
}


def fuzz_predictions(chosen: Random, kind: str) -> None:
    name, mutate = PREDICTIONS[kind]
    if not (samples() / name).exists():
        return
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        path = Path(folder) / name
        if kind == "parquet" and chosen.random() < 0.5:
            write_odd_parquet(path, chosen)
        else:
            path.write_bytes(mutate((samples() / name).read_bytes(), chosen))
        labels = (samples() / "labels.npy").read_bytes()
        change = kind == "npy" and chosen.random() < 0.3
        (Path(folder) / "labels.npy").write_bytes(mutations.mutated_npy(labels, chosen) if change else labels)
        values = chosen.choice(("logits", "probs", None))
        if chosen.random() < 0.05:
            words = ["--values", values] if values else []
            run_main("audit", path, "--json", "--resamples", 3, *words)
        calmix.load_predictions(path, values=values)


for _kind in PREDICTIONS:
    fuzz(f"predictions.{_kind}", weight=0.7)(functools.partial(fuzz_predictions, kind=_kind))


def write_odd_parquet(path: Path, chosen: Random) -> None:
    import datetime

    import pyarrow
    from pyarrow import parquet

    odd = (
        [datetime.date(2020, 1, 1)] * 4,
        [datetime.timedelta(1)] * 4,
        [[1, 2]] * 4,
        [{"a": 1}] * 4,
        ["x"] * 4,
        [b"x"] * 4,
        [True] * 4,
        [None] * 4,
        [float("nan")] * 4,
        [1, 2, 3, 4],
        [2**62] * 4,
    )
    names = ["label", "0", "1", "2", *chosen.sample(["member", "id", "group", "age"], k=chosen.randrange(3))]
    columns = {name: [0, 1, 2, 0] if name == "label" else [0.2, 0.3, 0.5, 0.1] for name in names}
    columns[chosen.choice(names)] = chosen.choice(odd)
    parquet.write_table(pyarrow.table(columns), path)


@fuzz("calibrator.json", weight=0.7)
def fuzz_calibrator(chosen: Random) -> None:
    name = chosen.choice(("temperature.json", "vector.json", "isotonic.json"))
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        path = Path(folder) / name
        path.write_bytes(mutations.mutated_json((samples() / name).read_bytes(), chosen))
        calibrator = calmix.load_calibrator(path)
        calibrator(torch.zeros(4, 5, 10))


@fuzz("corrupted images", weight=0.7)
def fuzz_corrupted(chosen: Random) -> None:
    name = chosen.choice(("contrast.npy", "labels.npy", "corruptions.json"))
    mutate = mutations.mutated_json if name.endswith("json") else mutations.mutated_npy
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        copy = Path(shutil.copytree(samples() / "corrupted", Path(folder) / "corrupted"))
        (copy / name).write_bytes(mutate((copy / name).read_bytes(), chosen))
        if name.endswith("json"):
            test = data.load("digits").test
            write_corrupted(test.inputs[:10], test.labels[:10], copy, names=["contrast"])
        corrupted_labels(copy)
        np.asarray(open_corrupted(copy, "contrast", chosen.randint(1, 5))).sum()


@fuzz("paths", weight=0.3)
def fuzz_paths(chosen: Random) -> None:
    """Names that are no UTF-8, markup, or control characters."""
    odd = (
        b"\xff\xfe",
        b"[red]",
        b"[/]",
        b"\x1b[31m",
        b"a\nb",
        b"{x}",
        b"%s",
        b"\xe2\x80\xae",
        b"-x",
        b" ",
        b"\\",
    )
    name = os.fsdecode(b"run" + b"".join(chosen.choices(odd, k=chosen.randint(1, 3))))
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        (original,) = (samples() / "runs").iterdir()
        copy = Path(shutil.copytree(original, Path(folder) / name / "run[1]"))
        kind = chosen.randrange(5)
        if kind == 0:
            run_main("evaluate", copy)
        elif kind == 1:
            run_main("audit", copy / "predictions" / "test.npz", "--resamples", 3)
        elif kind == 2 and chosen.random() < 0.2:
            run_main("report", copy, "--out", copy / "page.html")
        elif kind == 3:
            run_main("evaluate", copy / "nowhere")
        else:
            run_main("data", "--data-root", copy)
