"""Members of a deep ensemble that choose by the pool's gap: every epoch waits for all validation logits.

The logits meet in files, so that members may train in one process or in several.
"""

import time
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from calmix import files
from calmix.progress import Progress, Reporter
from calmix.runs.folder import Run
from calmix.runs.trainer import Trainer

KEPT_EPOCHS = 3  # a member that resumes from its previous checkpoint needs the two epochs before the last
WAIT_SECONDS = 0.05


def train_coupled(run: Run, trainers: Mapping[int, Trainer], reporter: Reporter) -> None:
    """Train these members epoch by epoch, in step with those of other processes."""
    epochs: dict[int, int] = {}  # of the members whose logits are published

    def train_epoch(member: int) -> None:
        epochs[member] = trainers[member].position.epoch
        logits = trainers[member].epoch()
        assert logits is not None, "members that wait for each other validate every epoch"
        _publish(run, member, epochs[member], logits)

    for member, trainer in trainers.items():
        if not trainer.finished:
            train_epoch(member)
    while epochs:
        member = min(epochs, key=epochs.__getitem__)
        logits = _published(run, epochs[member])
        if logits is None:
            total = run.recipe.epochs
            reporter(Progress(f"member {member}", epochs[member] + 1, total, "waits for the others"))
            time.sleep(WAIT_SECONDS)
            continue
        trainers[member].decide(logits)
        trainers[member].save()
        del epochs[member]
        if not trainers[member].finished:
            train_epoch(member)


def _publish(run: Run, member: int, epoch: int, logits: Tensor) -> None:
    folder = run.stream_folder(member)
    with files.replacing(folder / f"validation-{epoch}.npy") as file:
        np.save(file, logits.numpy())
    (folder / f"validation-{epoch - KEPT_EPOCHS}.npy").unlink(missing_ok=True)


def _published(run: Run, epoch: int) -> Tensor | None:
    """The validation logits of all members after an epoch, (members, N, C); None while one is missing."""
    paths = [run.stream_folder(k) / f"validation-{epoch}.npy" for k in range(run.recipe.streams)]
    if not all(path.exists() for path in paths):
        return None
    return torch.cat([torch.from_numpy(np.load(path, allow_pickle=False)) for path in paths])
