"""Runs that are killed, starved of disk, terminated and shared: the final bytes are those of a calm run."""

import contextlib
import functools
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from pathlib import Path

from calmix.runs.folder import Run, create
from tests.scenarios import tiny
from tests.torture.cases import case, events, expect
from tests.torture.children import Child, Ended, Injection, command

ENSEMBLES = ("single", "batch", "mc", "deep")
AUGMENTS = (
    *("none", "mixup", "cutmix", "regmixup", "mixupmp", "camixup", "cutmix-camixup", "forgetting"),
    *("camixup-by-pool", "augmix+camixup", "label-smoothing-0.1"),
)
SMALL = {"train_size": 40, "validation_size": 20, "test_size": 20, "batch_size": 20, "width": 4, "epochs": 2}
WORK = Path(tempfile.gettempdir()) / f"calmix-torture-{os.getpid()}"


def recipe_of(number: int):
    ensemble = ENSEMBLES[number % len(ENSEMBLES)]
    augment = AUGMENTS[number // len(ENSEMBLES) % len(AUGMENTS)]
    options = {"dropout": 0.2} if ensemble == "mc" else {}
    return tiny(ensemble, augment, **SMALL, **options)


def train_command(recipe, out: Path, *more: object):
    """`calmix train` of the recipe, with a checkpoint after every step."""
    path = out.with_suffix(".json")
    path.write_text(recipe.to_json())
    return command(
        *("train", "--recipe", path, "--out", out, "--save-seconds", 0, "--accelerator", "cpu", *more)
    )


@contextlib.contextmanager
def scratch():
    WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def content(run: Run) -> dict[str, object]:
    """What must not depend on interruptions: weights, predictions, numbers, and the epochs without times."""
    parts: dict[str, object] = {"model": run.model_path.read_bytes()}
    for path in sorted((run.folder / "predictions").iterdir()):
        parts[path.name] = path.read_bytes()
    parts["summary"] = run.summary_path.read_bytes()
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    parts["epochs"] = [{k: v for k, v in line.items() if k != "seconds"} for line in lines]
    return parts


@functools.cache
def calm(number: int) -> tuple[dict[str, object], int, float]:
    """A run without interruptions: its content, file operations and seconds."""
    recipe = recipe_of(number)
    with scratch() as folder:
        injection = Injection(folder / "runs")
        ended = Child(train_command(recipe, folder / "runs"), folder / "log", injection=injection).wait()
        expect(ended.code == 0, f"an undisturbed run exits with {ended.code}: {ended.text[-300:]}")
        run = Run(folder / "runs" / recipe.name, recipe)
        return content(run), ended.operations, ended.seconds


def check_end(ended: Ended, *, allowed: tuple[int, ...]) -> None:
    expect("Traceback" not in ended.text, f"traceback: {ended.text[-400:]}")
    expect(ended.code in allowed, f"exit code {ended.code}: {ended.text[-300:]}")


def check_finished(run: Run, expected: dict[str, object]) -> None:
    differing = [name for name, value in content(run).items() if value != expected.get(name)]
    expect(not differing, f"other bytes than an undisturbed run: {differing}")
    left = [str(path) for pattern in (".*.part", ".unpack-*", "*.tmp") for path in run.folder.rglob(pattern)]
    expect(not left, f"left behind: {left}")


@case("interrupted runs", weight=12)
def interrupted(seed: int) -> None:
    """A chain of kills, injected errors and SIGTERMs, then a calm end."""
    number, chosen = seed % (len(ENSEMBLES) * len(AUGMENTS)), random.Random(seed)
    recipe, (expected, operations, seconds) = recipe_of(number), calm(number)
    with scratch() as folder:
        out = folder / "runs"
        for link in range(chosen.randint(6, 16)):
            action = (
                "kill" if link == 0 else chosen.choice(["kill", "kill", "moment", "ENOSPC", "EIO", "term"])
            )
            at = chosen.randint(1, operations)
            ended = disturb(train_command(recipe, out), folder, action, at, chosen.uniform(0, seconds))
            if ended.code == 0:
                break
        ended = Child(train_command(recipe, out), folder / "log").wait()
        check_end(ended, allowed=(0,))
        check_finished(Run(out / recipe.name, recipe), expected)


def disturb(work, folder: Path, action: str, at: int, moment: float) -> Ended:
    """Run once with one disturbance, which must end as it should."""
    injected = action in ("kill", "ENOSPC", "EIO")
    injection = Injection(folder / "runs", at, action) if injected else None
    child = Child(work, folder / "log", injection=injection)
    if not injected:
        time.sleep(moment)
        child.send(signal.SIGTERM if action == "term" else signal.SIGKILL)
    sent = time.monotonic()
    ended = child.wait()
    events[{"moment": "kills", "kill": "kills", "term": "SIGTERMs"}.get(action, "I/O errors")] += 1
    if action in ("ENOSPC", "EIO"):
        check_end(ended, allowed=(0, 2))
        if ended.code == 2:
            expect(str(folder) in ended.text, f"{action}: no path is named: {ended.text[-300:]}")
    elif action == "term":
        check_end(ended, allowed=(0, 143, -15))  # -15 before the command has begun
        expect(time.monotonic() - sent < 30, "SIGTERM took more than 30 s")
    else:
        check_end(ended, allowed=(0, -9))
    expect(not child.survivors(), f"{action}: processes survive: {child.survivors()}")
    return ended


@case("members apart", weight=1.5)
def members_apart(seed: int) -> None:
    """One process for each member of a deep ensemble, some of them killed and started again: all end well."""
    chosen = random.Random(seed)
    members = chosen.randint(2, 8)
    recipe = tiny("deep", chosen.choice(["none", "camixup"]), **{**SMALL, "members": members, "epochs": 1})
    with scratch() as folder:
        out = folder / "runs"
        create(recipe, out)
        work = [train_command(recipe, out, "--member", k) for k in range(members)]
        if chosen.random() < 0.5:
            killed = [Child(job, folder / f"killed{k}") for k, job in enumerate(work)]
            for child in killed:
                time.sleep(chosen.uniform(0, 0.2))
                child.send(signal.SIGKILL)
                child.wait()
                events["kills"] += 1
        children = [Child(job, folder / f"log{k}") for k, job in enumerate(work)]
        for child in children:
            check_end(child.wait(), allowed=(0,))
        run = Run(out / recipe.name, recipe)
        expect(run.trained and run.summary_path.exists(), "no process finished the ensemble")
        whole = Child(train_command(recipe, folder / "whole"), folder / "log").wait()
        check_end(whole, allowed=(0,))
        check_finished(run, content(Run(folder / "whole" / recipe.name, recipe)))


@case("one run, several processes", weight=1)
def same_run(seed: int) -> None:
    """Processes that want the same run: one has it, the others say so; afterwards it is whole."""
    number, chosen = seed % (len(ENSEMBLES) * len(AUGMENTS)), random.Random(seed)
    recipe, (expected, _, _) = recipe_of(number), calm(number)
    with scratch() as folder:
        work = train_command(recipe, folder / "runs")
        children = [Child(work, folder / f"log{i}") for i in range(chosen.randint(2, 8))]
        for child in children:
            ended = child.wait()
            check_end(ended, allowed=(0, 2))
            if ended.code == 2:
                expect("another process" in ended.text, f"exit code 2: {ended.text[-300:]}")
        check_end(Child(work, folder / "log").wait(), allowed=(0,))
        check_finished(Run(folder / "runs" / recipe.name, recipe), expected)


@case("lost checkpoints", weight=1)
def lost_checkpoints(seed: int) -> None:
    """Members that wait for each other, with checkpoints or logits of one damaged or gone."""
    chosen = random.Random(seed)
    recipe = tiny("deep", "camixup-by-pool", **{**SMALL, "members": 2, "epochs": 5})
    with scratch() as folder:
        out = folder / "runs"
        run = Run(out / recipe.name, recipe)
        child = Child(train_command(recipe, out), folder / "log")
        time.sleep(chosen.uniform(0.2, 1.5))
        child.send(signal.SIGKILL)
        child.wait()
        member = run.stream_folder(chosen.randrange(2))
        for path in sorted(member.glob("*")) if member.exists() else []:
            if chosen.random() < 0.6 and path.is_file():
                damage = chosen.choice(["remove", "cut"])
                path.unlink() if damage == "remove" else path.write_bytes(path.read_bytes()[:-7])
        events["kills"] += 1
        check_end(Child(train_command(recipe, out), folder / "log").wait(limit=60), allowed=(0,))
        whole = Child(train_command(recipe, folder / "whole"), folder / "log").wait()
        check_end(whole, allowed=(0,))
        check_finished(run, content(Run(folder / "whole" / recipe.name, recipe)))


@case("orphans", weight=1)
def orphans(seed: int) -> None:
    """A parent that is killed or terminated takes its workers with it, and nobody keeps the lock."""
    chosen = random.Random(seed)
    augment = chosen.choice(["none", "camixup", "camixup-by-pool"])
    recipe = tiny("deep", augment, **{**SMALL, "members": 2, "epochs": 300})
    with scratch() as folder:
        out = folder / "runs"

        def work() -> None:
            fork = multiprocessing.get_context("fork")  # workers need not import torch anew
            multiprocessing.get_context = lambda method=None: fork  # type: ignore[assignment]
            train_command(recipe, out, "--jobs", 2)()

        child = Child(work, folder / "log")
        time.sleep(chosen.uniform(0.1, 3))
        sent = chosen.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        child.send(sent)
        ended = child.wait(limit=40)
        allowed = {signal.SIGKILL: (-9,), signal.SIGTERM: (143, -15), signal.SIGINT: (130, -2)}[sent]
        events["kills" if sent == signal.SIGKILL else "signals"] += 1
        expect(ended.code != -999, f"{sent.name}: {ended.text[-300:]}")
        expect("Traceback" not in ended.text or ended.code == -2, f"traceback: {ended.text[-400:]}")
        expect(ended.code in allowed, f"{sent.name}: exit code {ended.code}: {ended.text[-300:]}")
        deadline = time.monotonic() + 15
        while child.survivors() and time.monotonic() < deadline:
            time.sleep(0.1)
        expect(not child.survivors(), f"{sent.name}: workers survive: {child.survivors()}")
