"""Lightning: a callback that validates and updates a mixer, and saves predictions.

A callback cannot replace a batch, so the module mixes in `training_step`, with two lines:

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = calmix.BatchEnsemble(network, members=4)
            self.mixer = calmix.CAMixup(num_classes=10, members=4)

        def training_step(self, batch, batch_idx):
            x, y = batch
            mixed = self.mixer(x, y)
            return mixed.loss(self.model(mixed.inputs, per_member=True)).mean()

        def validation_step(self, batch, batch_idx):
            x, y = batch
            return {"logits": self.model(x), "labels": y}

    lightning.Trainer(callbacks=[MixerCallback("predictions")]).fit(Classifier(), train, val)
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from calmix.augment import Mixer
from calmix.errors import InputError
from calmix.integrations import learns_from_validation, requires
from calmix.predictions import Predictions, save_predictions

with requires("lightning", "lightning"):
    from lightning.pytorch import Callback, LightningModule, Trainer

COLUMNS = ("logits", "labels", "group", "ids")


class MixerCallback(Callback):
    """Validate and update the module's `mixer`, and save predictions.

    The module has its mixer as the attribute `mixer`; as a submodule it is saved in every checkpoint.
    `validation_step` returns a dictionary with "logits" (M, B, C) and "labels" (B,), and optionally "group"
    (B,) for a mixer with groups and "ids" (B,). `test_step` does so where predictions are saved.

    A mixer that learns from validation data (`CAMixup`) decides anew after each validation of `fit`, before
    checkpoints are written; every other one is updated after each epoch. The sanity check and
    `trainer.validate` change nothing. Of several validation loaders, the first counts.

    With `predictions`, a folder, `validation.npz` holds the last validation and `test.npz` that of
    `trainer.test`, for `calmix.audit` and `calmix.compare`. In distributed training the mixer and the files
    have the examples of all processes. Lightning's sampler repeats a few examples there, so that processes
    have equally many; with "ids" the files hold each example once, sorted by id.
    """

    def __init__(self, predictions: str | Path | None = None) -> None:
        self.predictions = None if predictions is None else Path(predictions)
        self._rows: list[dict[str, Tensor]] = []
        self._epoch_of_update = -1

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            _mixer(pl_module)

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if trainer.sanity_checking or dataloader_idx > 0:
            return
        rows = _columns(outputs, "validation_step")
        if trainer.state.fn == "fit":
            _mixer(pl_module).validate(rows["logits"], rows["labels"], rows.get("group"))
        self._keep(rows)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._rows = []

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        if learns_from_validation(_mixer(pl_module)) or trainer.is_last_batch:
            self._update(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After the validation of the epoch, if it had one."""
        if learns_from_validation(_mixer(pl_module)):
            if not trainer.enable_validation:
                raise InputError(
                    f"{type(pl_module.mixer).__name__} decides from validation data and there are none; give "
                    "trainer.fit a validation loader and the module a validation_step"
                )
        elif self._epoch_of_update < trainer.current_epoch:
            self._update(trainer, pl_module)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._save(trainer, "validation")

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._rows = []

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if self.predictions is not None and dataloader_idx == 0:
            self._keep(_columns(outputs, "test_step"))

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._save(trainer, "test")

    def _update(self, trainer: Trainer, pl_module: LightningModule) -> None:
        _mixer(pl_module).update()
        self._epoch_of_update = trainer.current_epoch

    def _keep(self, rows: dict[str, Tensor]) -> None:
        if self.predictions is not None:
            self._rows.append({name: tensor.detach().cpu() for name, tensor in rows.items()})

    def _save(self, trainer: Trainer, name: str) -> None:
        if self.predictions is None:
            return
        rows, self._rows = _gather(self._rows), []
        if not rows or not trainer.is_global_zero:
            return
        columns = {key: torch.cat([part[key] for part in rows], dim=int(key == "logits")) for key in rows[0]}
        if "ids" in columns:
            once = torch.from_numpy(np.unique(columns["ids"].numpy(), return_index=True)[1])
            columns = {key: t[:, once] if key == "logits" else t[once] for key, t in columns.items()}
        groups = {"group": columns["group"].numpy()} if "group" in columns else {}
        ids = columns["ids"].numpy() if "ids" in columns else None
        checked = Predictions(columns["logits"], columns["labels"], ids=ids, groups=groups)
        self.predictions.mkdir(parents=True, exist_ok=True)
        save_predictions(
            self.predictions / f"{name}.npz", checked.logits, checked.labels, ids=ids, groups=groups
        )


def _mixer(pl_module: LightningModule) -> Mixer:
    mixer = getattr(pl_module, "mixer", None)
    if not isinstance(mixer, Mixer):
        raise InputError(
            f"{type(pl_module).__name__}.mixer is {type(mixer).__name__}; set it in __init__ of the module, "
            "e.g. self.mixer = calmix.CAMixup(num_classes=10, members=4)"
        )
    return mixer


def _columns(outputs: Any, step: str) -> dict[str, Tensor]:
    if not isinstance(outputs, Mapping) or "logits" not in outputs or "labels" not in outputs:
        raise InputError(
            f'{step} returned {type(outputs).__name__}; it must return a dictionary with "logits" (M, B, C) '
            'and "labels" (B,), and "group" and "ids" (B,) if there are any'
        )
    return {name: outputs[name] for name in COLUMNS if outputs.get(name) is not None}


def _gather(rows: list[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
    """Those of all processes."""
    if not (dist.is_available() and dist.is_initialized()):
        return rows
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, rows)
    return [row for part in parts for row in part]
