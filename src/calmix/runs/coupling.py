"""Members of a deep ensemble that choose by the pool's gap: every epoch waits for all validation logits.

The logits meet in files, so that members may train in one process or in several. Those of the last epochs are
kept. A member that has lost its checkpoints needs older ones, which only members that start again can make:
all of them then do, in one process.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from calmix import files, interrupts
from calmix.errors import InputError
from calmix.progress import Message, Progress, Reporter
from calmix.runs import checkpoint
from calmix.runs.folder import Run, read_epochs
from calmix.runs.trainer import Trainer

KEPT_EPOCHS = 3  # a member that resumes from its previous checkpoint needs the two epochs before the last
WAIT_SECONDS = 0.05
RESTART = "restart"  # in the folder of members: they cannot go on, and must start again together


def train_coupled(
    run: Run, members: Sequence[int], make_trainer: Callable[[int], Trainer], reporter: Reporter
) -> None:
    """Train these members epoch by epoch, in step with those of other processes.

    Some members alone return unfinished where they wait for logits that are gone, and so do those of other
    processes. All members together start again then.
    """
    marker = run.folder / "members" / RESTART
    together = len(members) == run.recipe.streams
    if together and marker.exists():
        _start_again(run, reporter)
    if not marker.exists() and _train(run, {k: make_trainer(k) for k in members}, marker, reporter):
        return
    if not together:
        reporter(
            Message("members cannot go on with what is left: all start again when the whole run is trained")
        )
        return
    _start_again(run, reporter)
    if not _train(run, {k: make_trainer(k) for k in members}, marker, reporter):
        raise InputError(
            f"{run.folder}: validation logits vanish while it is trained; does the disk keep files?"
        )


def _train(run: Run, trainers: Mapping[int, Trainer], marker: Path, reporter: Reporter) -> bool:
    """Whether the members came to their end; else `marker` is there."""
    epochs: dict[int, int] = {}  # of the members whose logits are published

    def train_epoch(member: int) -> None:
        epochs[member] = trainers[member].position.epoch
        _publish(run, member, epochs[member], trainers[member].epoch())

    for member, trainer in trainers.items():
        if not trainer.finished:
            train_epoch(member)
    while epochs:
        member = min(epochs, key=epochs.__getitem__)
        logits = _published(run, epochs[member], trainers[member].validation_logits)
        if logits is None:
            if marker.exists():
                return False
            if _lost(run, epochs[member], trainers):
                with files.replacing(marker):
                    pass
                return False
            for k, epoch in epochs.items():  # a damaged file has been removed
                if not _path(run, k, epoch).exists():
                    _publish(run, k, epoch, trainers[k].validation_logits)
            total = run.recipe.epochs
            reporter(Progress(f"member {member}", epochs[member] + 1, total, "waits for the others"))
            interrupts.check()
            time.sleep(WAIT_SECONDS)
            continue
        trainers[member].decide(logits)
        trainers[member].save()
        del epochs[member]
        if not trainers[member].finished:
            train_epoch(member)
    return True


def _path(run: Run, member: int, epoch: int) -> Path:
    return run.stream_folder(member) / f"validation-{epoch}.npy"


def _publish(run: Run, member: int, epoch: int, logits: Tensor | None) -> None:
    assert logits is not None, "members that wait for each other validate every epoch"
    with files.replacing(_path(run, member, epoch)) as file:
        np.save(file, logits.numpy())
    _path(run, member, epoch - KEPT_EPOCHS).unlink(missing_ok=True)


def _published(run: Run, epoch: int, own: Tensor | None) -> Tensor | None:
    """The validation logits of all members after an epoch, (members, N, C); None while one is missing. One
    that cannot be read, or is not of the shape of `own`, is removed."""
    paths = [_path(run, k, epoch) for k in range(run.recipe.streams)]
    if not all(path.exists() for path in paths):
        return None
    logits = []
    for path in paths:
        try:
            logits.append(torch.from_numpy(np.load(path, allow_pickle=False)))
            if own is not None and (logits[-1].shape, logits[-1].dtype) != (own.shape, own.dtype):
                raise ValueError
        except files.READ_ERRORS:
            path.unlink(missing_ok=True)
            return None
    return torch.cat(logits)


def _lost(run: Run, epoch: int, trainers: Mapping[int, Trainer]) -> bool:
    """Whether a member has left `epoch` behind and its logits are not there: no one makes them again."""
    for k in range(run.recipe.streams):
        if k in trainers:
            ended = trainers[k].position.epoch
        else:
            history = read_epochs(run.stream_folder(k) / "metrics.jsonl")
            ended = history[-1].epoch if history else 0
        if ended > epoch and not _path(run, k, epoch).exists():
            return True
    return False


def _start_again(run: Run, reporter: Reporter) -> None:
    """Forget what the members have done; the marker goes last, so that this may be interrupted."""
    marker = run.folder / "members" / RESTART
    with files.replacing(marker):
        pass
    reporter(Message("a member has lost its checkpoints or its logits: all members start again"))
    for k in range(run.recipe.streams):
        folder = run.stream_folder(k)
        checkpoint.remove(folder)
        for path in folder.glob("validation-*.npy"):
            path.unlink(missing_ok=True)
        (folder / "metrics.jsonl").unlink(missing_ok=True)
    marker.unlink(missing_ok=True)
