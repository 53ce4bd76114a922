"""Runs: the streams of a recipe in one process, in several, or over many devices; then the finished
ensemble."""

import contextlib
import dataclasses
import json
import multiprocessing
import os
import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from calmix import checkpoint, ensembles, files, run_folder
from calmix.build import Splits, build_ensemble, build_mixer, load_splits
from calmix.errors import InputError, at_least
from calmix.progress import Listener, Silence, Step
from calmix.recipe import Recipe
from calmix.run_folder import Run
from calmix.train import train_stream

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Machine:
    """Where a run is computed. Nothing here is part of the recipe."""

    jobs: int = 1
    """Processes that train a deep ensemble's members side by side."""
    threads: int = 1
    """Threads of each process; results are the same bit for bit only for the same number."""
    accelerator: str = "auto"
    """cpu, cuda, mps or auto."""
    devices: int = 1
    """Devices of this machine that share every batch."""
    nodes: int = 1
    """Machines that share every batch; start the command on each, as torchrun does."""
    precision: str = "32-true"
    """Lightning Fabric's name of a precision: 32-true, bf16-mixed, ..."""
    save_seconds: float = 30.0
    """Seconds between checkpoints: what an interruption costs at most."""

    def __post_init__(self) -> None:
        for name in ("jobs", "threads", "devices", "nodes"):
            at_least(name, getattr(self, name), 1)
        at_least("save_seconds", self.save_seconds, 0)

    def fabric(self) -> "Fabric":
        from lightning_fabric import Fabric  # takes seconds to import, and only training needs it

        torch.set_num_threads(self.threads)
        distributed = self.devices * self.nodes > 1
        try:
            fabric = Fabric(
                accelerator=self.accelerator,
                devices=self.devices,
                num_nodes=self.nodes,
                precision=self.precision,  # type: ignore[arg-type]
                strategy="ddp" if distributed else "auto",
            )
        except (ValueError, RuntimeError, ImportError, TypeError) as error:
            told = str(error).splitlines()[0]
            raise InputError(
                f"--accelerator {self.accelerator} --devices {self.devices} --precision {self.precision} "
                f"cannot be had here: {told}"
            ) from None
        if distributed:
            fabric.launch()
        return fabric


def train(
    recipe: Recipe,
    out: Path,
    *,
    listener: Listener,
    root: Path | None = None,
    machine: Machine | None = None,
    member: int | None = None,
) -> Run:
    """Train what is missing of a run and return its folder; a finished run returns at once.

    Members of a deep ensemble come out the same bit for bit, together, in `jobs` processes, or one by one
    with `member`; the last to finish writes the ensemble.
    """
    machine = machine or Machine()
    world = machine.devices * machine.nodes
    if world > 1 and recipe.shards % world:
        recipe = dataclasses.replace(recipe, shards=world)
    coupled = recipe.ensemble == "deep" and "camixup" in recipe.mixing and recipe.gap_of == "pool"
    if member is not None and (recipe.ensemble != "deep" or not 0 <= member < recipe.members):
        raise InputError(
            f"--member {member}: a deep ensemble of {recipe.members} has members 0..{recipe.members - 1}"
        )
    if member is not None and coupled:
        raise InputError(
            "--member cannot train a member apart from the others with --gap-of pool, which asks them all"
        )
    if machine.jobs > 1 and world > 1:
        raise InputError(
            "--jobs trains members side by side on one device: choose it or --devices and --nodes"
        )
    fabric = machine.fabric()
    if not fabric.is_global_zero:
        listener = Silence()
    run = Run(out / recipe.name, recipe)
    if run.trained:
        listener.note(f"{run.folder.name}: trained already")
        return run
    splits = load_splits(recipe, root)
    run_folder.create(recipe, out)
    members = list(range(run.streams)) if member is None else [member]
    jobs = min(machine.jobs, len(members))
    with contextlib.ExitStack() as held:
        if fabric.is_global_zero:
            held.enter_context(run_folder.lock(run.folder, shared=member is not None))
        if jobs > 1:
            _train_in_processes(run, root, machine, members, jobs, coupled, listener)
        else:
            _train_members(run, splits, fabric, members, coupled, machine.save_seconds, listener)
        if fabric.is_global_zero and all(_finished(run, k) for k in range(run.streams)):
            _finish(run, splits, listener)
        fabric.barrier()
    return run


def leads() -> bool:
    """Whether this process is the first, or the only one: it alone writes and prints."""
    return not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0


def load_model(run: Run, splits: Splits) -> nn.Module:
    """The trained ensemble of a run."""
    if not run.trained:
        raise InputError(f"{run.folder} is not trained yet: run `calmix train` with its recipe first")
    model = build_ensemble(run.recipe, splits.train.shape, len(splits.classes))
    try:
        model.load_state_dict(load_file(run.model))
    except (SafetensorError, RuntimeError) as error:
        told = str(error).splitlines()[0]
        raise InputError(f"{run.model} does not hold the weights of its recipe.json: {told}") from None
    return model.eval()


def _train_members(
    run: Run,
    splits: Splits,
    fabric: "Fabric",
    members: Sequence[int],
    coupled: bool,
    save_seconds: float,
    listener: Listener,
) -> None:
    """Members one after the other, or, where the pool decides, all of them epoch by epoch."""
    with contextlib.ExitStack() as locks:
        for k in members:
            if fabric.is_global_zero and run.stream(k) != run.folder:
                locks.enter_context(run_folder.lock(run.stream(k)))
        streams = {
            k: train_stream(
                run.recipe,
                splits,
                run.stream(k),
                member=k,
                fabric=fabric,
                listener=listener,
                save_seconds=save_seconds,
                save_epochs=coupled,
            )
            for k in members
        }
        if coupled:
            _train_coupled(run, streams)
            return
        for stream in streams.values():
            with contextlib.suppress(StopIteration):
                _, logits = next(stream)
                while True:
                    _, logits = stream.send(logits)


def _train_coupled(run: Run, streams: dict[int, Any]) -> None:
    """Every epoch waits for the validation logits of all members, which meet in files: here or in other
    processes."""
    waiting = {k: said for k, stream in streams.items() if (said := next(stream, None))}
    for k, (epoch, logits) in waiting.items():
        _publish(run, k, epoch, logits)
    while waiting:
        k = min(waiting, key=lambda k: waiting[k][0])
        epoch = waiting[k][0]
        everyone = _published(run, epoch)
        if everyone is None:
            time.sleep(0.05)
            continue
        try:
            waiting[k] = streams[k].send(everyone)
            _publish(run, k, *waiting[k])
        except StopIteration:
            del waiting[k]


def _publish(run: Run, member: int, epoch: int, logits: Tensor) -> None:
    folder = run.stream(member)
    with files.replacing(folder / f"validation-{epoch}.npy") as file:
        np.save(file, logits.numpy())
    # A member that starts again from its last checkpoint but one needs the two epochs before this one.
    (folder / f"validation-{epoch - 3}.npy").unlink(missing_ok=True)


def _published(run: Run, epoch: int) -> Tensor | None:
    paths = [run.stream(k) / f"validation-{epoch}.npy" for k in range(run.streams)]
    if not all(path.exists() for path in paths):
        return None
    return torch.cat([torch.from_numpy(np.load(path, allow_pickle=False)) for path in paths])


def _finished(run: Run, member: int) -> bool:
    state = checkpoint.load(run.stream(member), warn=lambda text: None)
    return state is not None and state["epoch"] == run.recipe.epochs


def _finish(run: Run, splits: Splits, listener: Listener) -> None:
    """Gather the streams into the ensemble's weights, its history and the record of who was mixed."""
    parts: list[Any] = []
    history: list[str] = []
    mixed = []
    for k in range(run.streams):
        state = checkpoint.load(run.stream(k), warn=listener.note)
        assert state is not None
        parts.append(build_ensemble(run.recipe, splits.train.shape, len(splits.classes), k))
        parts[-1].load_state_dict(state["model"])
        history += [json.dumps(line) for line in state["history"]]
        mixer = build_mixer(run.recipe, splits)
        mixer.load_state_dict(state["mixer"])
        if (record := getattr(mixer, "history", None)) is not None:
            mixed.append(record)
    deep = run.recipe.ensemble == "deep"
    model = ensembles.DeepEnsemble([part.member(0) for part in parts]) if deep else parts[0]
    if mixed:
        # (epochs, members, groups): epoch e's row is what was decided after it, so the first epoch mixed
        # nothing.
        run_folder.write_json(run.mixed, torch.cat(mixed, dim=1).int().tolist())
    with files.replacing(run.metrics) as file:
        file.write(("\n".join(history) + "\n").encode())
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    with files.replacing(run.model) as file:
        file.write(save(weights))


def _train_in_processes(
    run: Run,
    root: Path | None,
    machine: Machine,
    members: list[int],
    jobs: int,
    coupled: bool,
    listener: Listener,
) -> None:
    """Members dealt to `jobs` processes; if one fails, or the user stops, all end."""
    context = multiprocessing.get_context("spawn")
    events: Any = context.Queue()
    hands = [members[j::jobs] for j in range(jobs)]
    processes = [
        context.Process(
            target=_work, args=(run, root, machine, hand, coupled, events, os.getpid()), daemon=True
        )
        for hand in hands
    ]
    for process in processes:
        process.start()
    try:
        while any(process.is_alive() for process in processes) or not events.empty():
            with contextlib.suppress(queue.Empty):
                event = events.get(timeout=0.2)
                if isinstance(event, Step):
                    listener.step(event)
                elif isinstance(event, InputError):
                    raise event
                else:
                    listener.note(event)
            if any(process.exitcode for process in processes):
                raise InputError(_fallen(processes, hands))
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _fallen(processes: Sequence[Any], hands: list[list[int]]) -> str:
    dead = next(i for i, process in enumerate(processes) if process.exitcode)
    return (
        f"the process of members {hands[dead]} ended with exit code {processes[dead].exitcode}; "
        "nothing finished is lost: run the same command again"
    )


@dataclass(frozen=True)
class Teller:
    """A listener that sends what it hears to the parent process, and dies with it."""

    events: Any
    parent: int

    def step(self, step: Step) -> None:
        if os.getppid() != self.parent:
            os._exit(1)
        if step.text or int(step.done) % 8 == 0:
            self.events.put(step)

    def note(self, text: str) -> None:
        self.events.put(text)


def _work(
    run: Run, root: Path | None, machine: Machine, members: list[int], coupled: bool, events: Any, parent: int
) -> None:
    try:
        splits = load_splits(run.recipe, root)
        fabric, teller = machine.fabric(), Teller(events, parent)
        _train_members(run, splits, fabric, members, coupled, machine.save_seconds, teller)
    except InputError as error:
        events.put(error)
    except KeyboardInterrupt:
        os._exit(130)
