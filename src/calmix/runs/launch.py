"""Training of a run: its streams one after the other, on one device or many, then the finished ensemble."""

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from calmix import ensembles, interrupts
from calmix.errors import InputError, at_least, at_most
from calmix.locks import clear_leftovers
from calmix.progress import Message, Reporter, ignore
from calmix.runs import checkpoint
from calmix.runs.build import Splits, build_ensemble, check_build, load_splits
from calmix.runs.coupling import train_coupled
from calmix.runs.folder import Run, create, lock, open_run, write_epochs
from calmix.runs.position import position_of
from calmix.runs.recipe import Recipe
from calmix.runs.trainer import Trainer

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Machine:
    """Where a run is computed. Nothing here is part of the recipe."""

    threads: int = 1
    """Threads of each process; results are the same bit for bit only for the same number."""
    accelerator: str = "auto"
    """cpu, cuda, mps or auto."""
    devices: int = 1
    """Devices of this machine that share every batch."""
    nodes: int = 1
    """Machines that share every batch; start the command on each, as torchrun does."""
    save_seconds: float = 30.0
    """Seconds between checkpoints: what an interruption costs at most."""

    def __post_init__(self) -> None:
        for name in ("threads", "devices", "nodes"):
            at_least(name, getattr(self, name), 1)
            at_most(name, getattr(self, name), 4096)
        at_least("save_seconds", self.save_seconds, 0)

    @property
    def world_size(self) -> int:
        return self.devices * self.nodes

    def fabric(self, precision: str = "32-true") -> "Fabric":
        from lightning_fabric import Fabric  # takes seconds to import, and only training needs it

        torch.set_num_threads(self.threads)
        try:
            fabric = Fabric(
                accelerator=self.accelerator,
                devices=self.devices,
                num_nodes=self.nodes,
                precision=precision,  # type: ignore[arg-type]
                strategy="ddp" if self.world_size > 1 else "auto",
            )
        except (ValueError, RuntimeError, ImportError, TypeError) as error:
            raise InputError(
                f"accelerator {self.accelerator!r} with {self.devices} devices and precision {precision!r} "
                f"is not available on this machine: {str(error).splitlines()[0]}"
            ) from None
        if self.world_size > 1:
            fabric.launch()
        return fabric


def train(
    recipe: Recipe,
    out: Path,
    *,
    reporter: Reporter = ignore,
    data_root: Path | None = None,
    machine: Machine | None = None,
    members: Sequence[int] | None = None,
) -> Run:
    """Train what is missing of a run and return its folder; a finished run returns at once.

    Members of a deep ensemble come out the same bit for bit, together or, with `members`, in processes of
    their own; the last to finish writes the ensemble.
    """
    machine = machine or Machine()
    if recipe.shards % machine.world_size:
        recipe = recipe.replace(shards=machine.world_size)
    for member in members or ():
        if recipe.ensemble != "deep" or not 0 <= member < recipe.members:
            valid = f"a deep ensemble of {recipe.members} has members 0..{recipe.members - 1}"
            raise InputError(f"member {member}: {valid}")
    run = Run(out / recipe.name, recipe)
    if run.trained:
        return run
    fabric = machine.fabric(recipe.precision)
    if not fabric.is_global_zero:
        reporter = ignore
    if recipe.digests and not run.folder.exists():
        _refuse_changed_sources(run, reporter)
    splits = load_splits(recipe, data_root)
    check_build(recipe, splits)
    create(recipe, out)
    with contextlib.ExitStack() as locks:
        if fabric.is_global_zero and members is None:
            locks.enter_context(lock(run.folder))
        wanted = range(recipe.streams) if members is None else members
        with interrupts.at_checkpoints():
            _train_members(run, splits, fabric, wanted, machine.save_seconds, reporter)
        if fabric.is_global_zero:
            if members is not None:  # several processes may end at once: one of them writes the ensemble
                locks.enter_context(lock(run.folder, wait=True))
            states = (checkpoint.load(run.stream_folder(k)) for k in range(recipe.streams))
            ended = (state is not None and state.get("epoch") == recipe.epochs for state in states)
            if not run.trained and all(ended):
                _write_ensemble(run, splits, reporter)
        fabric.barrier()
    return run


def _refuse_changed_sources(run: Run, reporter: Reporter) -> None:
    """Say that a network, data set or mixing has changed since a run of the same recipe.

    A run that was interrupted could not go on: that is refused. One that is finished stays, beside a new one.
    """
    recipe = run.recipe
    for path in sorted(run.folder.parent.glob("*/recipe.json")):
        try:
            other = open_run(path.parent)
        except InputError:
            continue  # of no matter to this run
        names = [name for name in recipe.digests if recipe.digests[name] != other.recipe.digests.get(name)]
        if not names or recipe != dataclasses.replace(other.recipe, digests=recipe.digests):
            continue
        what = " and ".join(f"{name} {getattr(recipe, name)}" for name in names)
        if not other.trained:
            raise InputError(
                f"{what} has changed since {other.folder} was begun: restore it to go on with that run, or "
                "remove the folder (or choose another out) to train anew"
            )
        reporter(Message(f"{what} has changed since {other.folder.name}: this is a new run"))


def is_main_process() -> bool:
    """Whether this process is the only one, or the first of several: it alone writes and prints."""
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def _train_members(
    run: Run,
    splits: Splits,
    fabric: "Fabric",
    members: Sequence[int],
    save_seconds: float,
    reporter: Reporter,
) -> None:
    """Members one after the other or, where the pool's gap decides, all of them epoch by epoch."""
    recipe, folder = run.recipe, run.stream_folder

    def trainer(k: int) -> Trainer:
        part, seconds = folder(k), save_seconds
        return Trainer(recipe, splits, part, member=k, fabric=fabric, reporter=reporter, save_seconds=seconds)

    with contextlib.ExitStack() as locks:
        for k in members:
            if fabric.is_global_zero and folder(k) != run.folder:
                locks.enter_context(lock(folder(k)))
        if recipe.couples_members:
            train_coupled(run, members, trainer, reporter)
            return
        for k in members:
            stream = trainer(k)
            while not stream.finished:
                stream.decide(stream.epoch())


def _write_ensemble(run: Run, splits: Splits, reporter: Reporter) -> None:
    """Gather the streams into the ensemble's weights and its history."""
    recipe, shape, num_classes = run.recipe, splits.train.shape, len(splits.classes)
    parts, history = [], []
    for k in range(recipe.streams):
        state = checkpoint.load(run.stream_folder(k), reporter=reporter)
        assert state is not None
        part = build_ensemble(recipe, shape, num_classes, k)
        with checkpoint.restoring(run.stream_folder(k)):
            part.load_state_dict(state["model"])
            history += position_of(state).history
        parts.append(part)
        clear_leftovers(run.stream_folder(k))
    deep = recipe.ensemble == "deep"
    model = ensembles.DeepEnsemble([part.member(0) for part in parts]) if deep else parts[0]  # type: ignore[operator]
    write_epochs(run.folder / "metrics.jsonl", history)
    run.write_model(model, shape, num_classes)
