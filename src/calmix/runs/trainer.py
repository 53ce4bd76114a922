"""Training of one stream: the same steps for every ensemble and augmentation.

A single network, a BatchEnsemble and MC-dropout are one stream; a deep ensemble is one for each member. All
random draws are keyed by (seed, member, epoch, step), so that a resumed stream repeats them and needs no
saved random state.
"""

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from calmix import augment, data, ensembles, files, interrupts, metrics, seeds
from calmix.errors import InputError
from calmix.predictions import pool
from calmix.progress import Finished, Numbers, Progress, Reporter
from calmix.runs import checkpoint
from calmix.runs.batch_views import BatchViews
from calmix.runs.build import Splits, build_ensemble, build_mixer
from calmix.runs.code import in_words, is_code
from calmix.runs.embedding import mix_points, mixing
from calmix.runs.folder import Epoch, epoch_line, write_epochs
from calmix.runs.position import Position, resumed
from calmix.runs.predict import predict_logits
from calmix.runs.recipe import Recipe
from calmix.runs.schedule import learning_rate, validation_interval
from calmix.runs.standardise import set_statistics

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MOMENTUM = 0.9


class Trainer:
    """One stream of training in `folder`, resumed from its checkpoint if there is one.

    Until it is `finished`, call `epoch()`, which gives the validation logits, then `decide(logits)` with the
    logits by which the mixer chooses the classes to mix next: the same ones, or in a deep ensemble with
    `gap_of="pool"` those of all members. A checkpoint is written when `save_seconds` have passed since the
    last and at the end; `save()` writes one now.
    """

    def __init__(
        self,
        recipe: Recipe,
        splits: Splits,
        folder: Path,
        *,
        member: int,
        fabric: "Fabric",
        reporter: Reporter,
        save_seconds: float,
    ) -> None:
        self.recipe, self.splits, self.folder, self.member = recipe, splits, folder, member
        self.fabric, self.reporter, self.save_seconds = fabric, reporter, save_seconds
        self.name = f"member {member}" if recipe.ensemble == "deep" else "training"
        self.steps = data.steps_per_epoch(len(splits.train), recipe.batch_size)
        self.validation_interval = validation_interval(recipe, len(splits.train), len(splits.validation))
        self.model = build_ensemble(recipe, splits.train.shape, len(splits.classes), member)
        set_statistics(self.model, splits.train)
        self.mix_points = mix_points(self.model, recipe.mix_after) if recipe.mixing != "none" else []
        if recipe.shards > 1:
            self.model = ensembles.key_dropout(self.model)
        if fabric.world_size > 1:
            self.model = ensembles.synchronise(self.model)
        self.mixer = build_mixer(recipe, splits).to(fabric.device)
        self.views = BatchViews(recipe, self.mixer, member)
        groups = ensembles.parameter_groups(self.model, weight_decay=recipe.weight_decay)
        optimiser: torch.optim.Optimizer
        if recipe.optimiser == "adamw":
            optimiser = torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=True)
        else:
            optimiser = torch.optim.SGD(
                groups, lr=recipe.learning_rate, momentum=MOMENTUM, nesterov=True, fused=True
            )
        self.network: Any
        self.optimiser: Any
        self.network, self.optimiser = fabric.setup(self.model, optimiser)
        self.position = Position()
        self.saved = time.monotonic()
        self._resume()

    def _resume(self) -> None:
        state = checkpoint.load(self.folder, reporter=self.reporter, map_location=self.fabric.device)
        if state is None:
            self.save()  # a full disk shows now, not after the first epoch
        else:
            with checkpoint.restoring(self.folder):
                self.position = resumed(state, self.recipe, self.steps)
                self.model.load_state_dict(state["model"])
                checkpoint.load_optimiser(self.optimiser, state["optimiser"])
                self.mixer.load_state_dict(state["mixer"])
        if self.fabric.is_global_zero:
            write_epochs(self.folder / "metrics.jsonl", self.position.history)

    @property
    def finished(self) -> bool:
        return self.position.epoch == self.recipe.epochs

    def save(self) -> None:
        if self.fabric.is_global_zero:
            position = vars(self.position) | {
                "history": [dataclasses.asdict(epoch) for epoch in self.position.history]
            }
            parts = {"model": self.model, "optimiser": self.optimiser, "mixer": self.mixer}
            state = {k: part.state_dict() for k, part in parts.items()} | position
            checkpoint.save(self.folder, state | {"recipe": self.recipe.name})
        self.saved = time.monotonic()

    def epoch(self) -> Tensor | None:
        """Train to the end of the epoch; the validation logits (M, N, C) after it, if it is validated."""
        # Other processes' observations of an epoch are known only at its end.
        may_save = self.fabric.world_size == 1 or self.recipe.mixing != "forgetting"
        position, clock = self.position, time.monotonic()
        if self.recipe.mixing_epochs is not None:
            self.mixer.enabled = position.epoch < self.recipe.mixing_epochs
        self.network.train()
        for step, shards in self._batches():
            position.loss += self._step(step, shards)
            position.step = step + 1
            total = self.recipe.epochs * self.steps
            self.reporter(Progress(self.name, position.epoch * self.steps + step, total))
            due = time.monotonic() - self.saved > self.save_seconds or interrupts.terminated()
            if may_save and due:
                position.seconds += time.monotonic() - clock
                clock = time.monotonic()
                self.save()
            interrupts.check()
        ended = position.epoch + 1
        due = ended % self.validation_interval == 0 or ended == self.recipe.epochs
        self.validation_logits = self._validate() if due else None
        if self.validation_logits is not None and not self.validation_logits.isfinite().all():
            raise InputError(self._diverged("validation logits are not finite", self.steps - 1))
        position.seconds += time.monotonic() - clock
        return self.validation_logits

    def decide(self, logits: Tensor | None) -> None:
        """End the epoch: the mixer chooses by `logits` (any M, N, C), and the epoch is recorded."""
        position, validation = self.position, self.splits.validation
        record = self._record(self.validation_logits)
        group = validation.groups if self.recipe.by_group else None
        with self._own_mixing():
            if logits is None:
                self.mixer.update()
            else:
                self.mixer.update(logits, validation.labels, group=group)
        self.position = Position(epoch=position.epoch + 1, history=[*position.history, record])
        if self.fabric.is_global_zero:
            files.append(self.folder / "metrics.jsonl", epoch_line(record))
        due = time.monotonic() - self.saved > self.save_seconds or interrupts.terminated()
        if self.finished or due:
            self.save()
        interrupts.check()
        self._report(record)

    def _batches(self) -> Iterator[tuple[int, list[tuple[int, data.Batch]]]]:
        """(step, this process's shards of the batch with their numbers), from the current step on."""
        recipe, fabric, position = self.recipe, self.fabric, self.position
        count = recipe.shards // fabric.world_size
        mine = range(fabric.global_rank * count, (fabric.global_rank + 1) * count)
        streams = [
            data.train_batches(
                self.splits.train,
                batch_size=recipe.batch_size,
                seed=recipe.seed,
                epoch=position.epoch,
                member=self.member,
                start=position.step,
                shard=shard,
                shards=recipe.shards,
                device=fabric.device,
                as_bytes=True,
            )
            for shard in mine
        ]
        for step, batches in enumerate(zip(*streams, strict=True), start=position.step):
            yield step, list(zip(mine, batches, strict=True))

    def _step(self, step: int, shards: list[tuple[int, data.Batch]]) -> float:
        """One step of the optimiser; its loss."""
        epoch = self.position.epoch
        rate = learning_rate(self.recipe, epoch + step / self.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        draws = [seeds.generator(self.recipe.seed, "draws", self.member, epoch, step, s) for s, _ in shards]
        with self._own_mixing():
            pieces, plans = self._pieces([batch for _, batch in shards], draws)
        views = [_join(piece) for piece in zip(*pieces, strict=True)]
        with self._dropout(step, [s for s, _ in shards], len(views)), mixing(self.mix_points, plans):
            logits = self._forward(views)
        loss = views[0].loss(logits[0]).mean()
        if self.recipe.consistency:
            loss = loss + self.recipe.consistency * augment.jensen_shannon(logits).mean()
        value = float(loss.detach())
        if not value < float("inf"):
            raise InputError(self._diverged(f"the loss is {value}", step))
        self.fabric.backward(loss)
        self.optimiser.step()
        labels = torch.cat([batch.labels for _, batch in shards])
        index = torch.cat([batch.index for _, batch in shards])
        with self._own_mixing():
            self.mixer.observe(logits[0].detach(), labels, index)
        return value

    def _pieces(
        self, batches: Sequence[data.Batch], draws: Sequence[torch.Generator]
    ) -> tuple[list[list[augment.Batch]], list[augment.Plan]]:
        """The views of each shard, and where they are mixed inside the network, by which plans."""
        pairs = list(zip(batches, draws, strict=True))
        if not self.mix_points and batches[0].inputs.dtype != torch.int64:  # token ids are never mixed
            return [self.views(batch, draw) for batch, draw in pairs], []
        members = self.recipe.members_per_stream
        both = [self.views.plan_inside(batch, members, draw) for batch, draw in pairs]
        return [views for views, _ in both], [plan for _, plan in both]

    @contextlib.contextmanager
    def _own_mixing(self) -> Iterator[None]:
        """What a mixer of the user's own raises is said in a sentence; training goes on once it is fixed."""
        if not is_code(self.recipe.mixing):
            yield
            return
        advice = "; the last good checkpoint is kept"
        with in_words(f"mixing {self.recipe.mixing}", advice):
            yield

    def _diverged(self, what: str, step: int) -> str:
        epoch = self.position.epoch
        rate = learning_rate(self.recipe, epoch + step / self.steps)
        return (
            f"{self.name}: {what} at epoch {epoch + 1}, step {step}, learning rate {rate:.4g}. Try a lower "
            "learning_rate or a longer warmup_epochs; the last good checkpoint is kept."
        )

    def _forward(self, views: Sequence[augment.Batch]) -> Tensor:
        """Logits (views, M, rows, C)."""
        inputs = views[0].inputs if len(views) == 1 else torch.cat([view.inputs for view in views], dim=1)
        try:
            logits: Tensor = self.network(inputs, per_member=True)
        except ValueError as error:
            if "more than 1 value per channel" in str(error):
                raise InputError(
                    f"a step on {inputs.shape[1]} image is too small for batch norm: use a larger "
                    "batch_size and train_size"
                ) from None
            raise
        members, rows, classes = logits.shape
        return logits.view(members, len(views), rows // len(views), classes).transpose(0, 1)

    @contextlib.contextmanager
    def _dropout(self, step: int, shards: Sequence[int], views: int) -> Iterator[None]:
        """Dropout masks keyed by the shard, as all draws are, so that they do not depend on the number of
        processes."""
        recipe, model, device = self.recipe, self.model, self.fabric.device
        monte_carlo = isinstance(model, ensembles.MCDropout)
        place = (self.position.epoch, step) if monte_carlo else (self.member, self.position.epoch, step)
        keys: list[tuple[int | str, ...]] = [
            (seeds.derive(recipe.seed, "dropout", *place, shard), "step", 1) for shard in shards
        ]
        if recipe.shards > 1:
            keys = [(*key, view) if view else key for view in range(views) for key in keys]
        with contextlib.ExitStack() as stack:
            if monte_carlo or recipe.shards > 1:
                stack.enter_context(ensembles.keyed_dropout(model, keys))
            elif is_code(recipe.network) or recipe.network_options.get("dropout"):
                kind = device.type
                devices = [] if kind == "cpu" else [device]
                stack.enter_context(
                    torch.random.fork_rng(devices, device_type="cuda" if kind == "cpu" else kind)
                )
                torch.manual_seed(int(keys[0][0]))
            yield

    def _validate(self) -> Tensor:
        """Logits of the validation part on every process, each having predicted a range of it."""
        fabric, part = self.fabric, self.splits.validation
        world, total = fabric.world_size, len(part)
        with self._validation_samples():
            local = predict_logits(
                self.network,
                part,
                seed=self.recipe.seed,
                shard=fabric.global_rank,
                shards=world,
                device=fabric.device,
            )
        if world == 1:
            return local
        sizes = [(r + 1) * total // world - r * total // world for r in range(world)]
        padded = torch.nn.functional.pad(local, (0, 0, 0, max(sizes) - local.shape[1])).to(fabric.device)
        gathered: Any = fabric.all_gather(padded)
        return torch.cat(
            [logits[:, :size].cpu() for logits, size in zip(gathered, sizes, strict=True)], dim=1
        )

    @contextlib.contextmanager
    def _validation_samples(self) -> Iterator[None]:
        """Fewer samples of MC-dropout than at test time."""
        if not isinstance(self.model, ensembles.MCDropout):
            yield
            return
        samples = self.model.samples
        self.model.samples = min(samples, self.recipe.validation_samples)
        try:
            yield
        finally:
            self.model.samples = samples

    def _record(self, logits: Tensor | None) -> Epoch:
        position, labels = self.position, self.splits.validation.labels
        active = self.mixer.active & self.mixer.enabled
        validation: dict[str, Any] = {}
        if logits is not None:
            pooled = pool(logits)
            names = {"accuracy": metrics.accuracy, "ece": metrics.ece, "gap_pool": metrics.gap}
            validation = {name: metric(pooled, labels) for name, metric in names.items()}
            validation["gap_members"] = tuple(metrics.gap(m.softmax(-1), labels) for m in logits)
        return Epoch(
            member=self.member,
            epoch=position.epoch + 1,
            loss=position.loss / self.steps,
            seconds=position.seconds,
            **validation,
            mixed=float(active.float().mean()) if self.recipe.adaptive else None,
            mixed_classes=(
                tuple(map(tuple, active.int().tolist())) if self.recipe.needs_validation else None
            ),
        )

    def _report(self, record: Epoch) -> None:
        recipe, total = self.recipe, self.recipe.epochs * self.steps
        rate = self.steps * recipe.batch_size / max(record.seconds, 1e-9)
        mixed = "" if record.mixed is None else f"  mixed {100 * record.mixed:.0f} %"
        text = f"epoch {record.epoch}/{recipe.epochs}  loss {record.loss:.3f}"
        if record.accuracy is not None and record.gap_pool is not None:
            text += f"  validation accuracy {100 * record.accuracy:.1f} %  gap {100 * record.gap_pool:+.1f}"
        text += f"{mixed}  {rate:,.0f} images/s"
        names = ("loss", "accuracy", "ece", "gap_pool", "mixed")
        values = {name: value for name in names if (value := getattr(record, name)) is not None}
        self.reporter(Numbers(self.name, record.epoch, values))
        self.reporter(Progress(self.name, record.epoch * self.steps, total, text))
        if self.finished:
            self.reporter(Finished(self.name, text))


def _join(pieces: Sequence[augment.Batch]) -> augment.Batch:
    """The rows of a batch's shards, side by side."""
    if len(pieces) == 1:
        return pieces[0]
    names = ("inputs", "targets", "weights")
    inputs, targets, weights = (torch.cat([getattr(p, name) for p in pieces], dim=1) for name in names)
    return augment.Batch(inputs, targets, weights, sum(piece.images for piece in pieces))
