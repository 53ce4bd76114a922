"""The training loop relative to a bare one, its CPU time by part, and two processes relative to one.

Two processes are measured by the clock: it takes two idle cores.
"""

import contextlib
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

from benchmarks.timing import Row
from calmix import data
from calmix.progress import ignore
from calmix.runs.batch_views import BatchViews
from calmix.runs.build import Splits, build_ensemble
from calmix.runs.folder import Run
from calmix.runs.launch import Machine
from calmix.runs.presets import preset
from calmix.runs.recipe import Recipe
from calmix.runs.trainer import Trainer
from calmix.study.executors import Executor, ProcessExecutor, SerialExecutor
from calmix.study.plan import run_plan
from calmix.study.tasks import Context

EPOCHS, IMAGES, BATCH = 3, 2560, 128


def rows(full: bool = False) -> Iterator[Row]:
    recipe, splits = _recipe(), _splits()
    with tempfile.TemporaryDirectory() as folder:
        spent = _profile(recipe, splits, Path(folder))
    total = spent["total"]
    inside = spent["forward"] + spent["backward"]
    yield Row("share of the loop in forward and backward", inside / total, "", at_least=0.9)
    for name in ("loading", "augmentation", "optimiser"):
        yield Row(f"share of the loop in {name}", spent[name] / total, "")
    rest = total - inside - spent["loading"] - spent["augmentation"] - spent["optimiser"]
    yield Row("share of the loop in the rest: logging, checks, observing", rest / total, "")
    loop, bare = _loop_beside_bare(recipe, splits, 3 if full else 2)
    yield Row("training with crop, flip and CAMixup / bare loop", bare / loop, "x images/s", at_least=0.85)
    yield Row(
        "two processes / one, deep ensemble of two", _two_beside_one(2 if full else 1), "x", at_least=1.7
    )


def _recipe() -> Recipe:
    base = preset("cifar10", "single", "camixup")
    return base.replace(epochs=EPOCHS, train_size=None, batch_size=BATCH, width=16)


def _splits() -> Splits:
    """Noise in CIFAR's shape: speed does not depend on what is in the pictures."""
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (IMAGES + 500, 32, 32, 3), generator=g, dtype=torch.uint8)
    part = data.Part(images, torch.randint(0, 10, (len(images),), generator=g))
    train, rest = part.take(torch.arange(IMAGES)), part.take(torch.arange(IMAGES, len(images)))
    return Splits(train, rest, rest, torch.arange(len(rest)), tuple("0123456789"), None)


def _epochs(recipe: Recipe, splits: Splits, folder: Path) -> Iterator[int]:
    """Train, and come back after every epoch."""
    fabric = Machine(accelerator="cpu").fabric()
    trainer = Trainer(recipe, splits, folder, member=0, fabric=fabric, reporter=ignore, save_seconds=1e9)
    while not trainer.finished:
        trainer.decide(trainer.epoch())
        yield trainer.position.epoch


def _loop_beside_bare(recipe: Recipe, splits: Splits, repeats: int) -> tuple[float, float]:
    """CPU seconds of an epoch's steps, in the loop and bare, the best of several in turns."""
    model = build_ensemble(recipe, splits.train.shape, 10, 0)
    x, y = torch.rand(1, BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))
    best = [float("inf"), float("inf")]
    for _ in range(repeats):
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch("calmix.runs.trainer.predict_logits", _no_prediction),
        ):
            start = time.process_time()
            for _ in _epochs(recipe, splits, Path(folder)):
                best[0] = min(best[0], time.process_time() - start)
                start = time.process_time()
        start = time.process_time()
        for _ in range(IMAGES // BATCH):
            model.zero_grad()
            nn.functional.cross_entropy(model(x, per_member=True)[0], y).backward()
        best[1] = min(best[1], time.process_time() - start)
    return best[0], best[1]


def _no_prediction(network: nn.Module, part: data.Examples, **options: Any) -> torch.Tensor:
    """Validation is apart from the steps that are compared here."""
    return torch.zeros(1, len(part), 10)


def _profile(recipe: Recipe, splits: Splits, folder: Path) -> dict[str, float]:
    """CPU seconds of the steps of one epoch, by kind: the fastest of those after the first."""
    spent: dict[str, float] = defaultdict(float)

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **options: Any) -> Any:
            start = time.process_time()
            result = function(*given, **options)
            spent[name] += time.process_time() - start
            return result

        return run

    def timed_batches(*given: Any, **options: Any) -> Iterator[data.Batch]:
        batches = iter(data_batches(*given, **options))
        ahead = timed("loading", lambda: next(batches, None))
        while (batch := ahead()) is not None:
            yield batch

    data_batches = data.train_batches

    from lightning_fabric import Fabric
    from lightning_fabric.wrappers import _FabricModule

    patches: tuple[contextlib.AbstractContextManager[Any], ...] = (
        mock.patch.object(data, "train_batches", timed_batches),
        mock.patch.object(BatchViews, "__call__", timed("augmentation", BatchViews.__call__)),
        mock.patch.object(torch.optim.SGD, "step", timed("optimiser", torch.optim.SGD.step)),
        mock.patch.object(_FabricModule, "forward", timed("forward", _FabricModule.forward)),
        mock.patch.object(Fabric, "backward", timed("backward", Fabric.backward)),
        mock.patch("calmix.runs.trainer.predict_logits", _no_prediction),
    )
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        epochs = _epochs(recipe, splits, folder)
        next(epochs)
        measured = []
        for _ in range(EPOCHS - 1):
            spent.clear()
            start = time.process_time()
            next(epochs)
            measured.append({**spent, "total": time.process_time() - start})
    return min(measured, key=lambda epoch: epoch["total"])


def _two_beside_one(repeats: int) -> float:
    """Wall-clock of the members' training, the start of processes apart; it takes two free cores."""
    recipe = preset("digits", "deep").replace(epochs=40, members=2, validation_size=300)
    best = {1: float("inf"), 2: float("inf")}
    for _ in range(repeats):
        for jobs in best:
            with tempfile.TemporaryDirectory() as folder:
                context = Context(Path(folder), machine=Machine(accelerator="cpu"))
                executor: Executor = SerialExecutor(context, ignore)
                if jobs > 1:
                    executor = ProcessExecutor(context, ignore, jobs=jobs)
                run_plan({recipe: ()}, Path(folder), executor, ignore)
                spent: defaultdict[int, float] = defaultdict(float)
                for epoch in Run(Path(folder) / recipe.name, recipe).history:
                    spent[epoch.member] += epoch.seconds
            best[jobs] = min(best[jobs], sum(spent.values()) if jobs == 1 else max(spent.values()))
    return best[1] / best[2]
