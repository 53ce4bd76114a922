"""The training loop: one stream of steps, the same for every ensemble and augmentation.

A single network, a BatchEnsemble and MC-dropout are one stream; a deep ensemble is one for each member, and
`calmix.launch` runs them. All random draws are keyed by (seed, member, epoch, step), so that a resumed
stream makes them again and needs no saved random state.
"""

import contextlib
import json
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from calmix import augment, checkpoint, data, ensembles, files, metrics, seeds
from calmix.build import Augmentation, Splits, build_ensemble, build_mixer
from calmix.errors import InputError
from calmix.predict import predict
from calmix.predictions import pool
from calmix.progress import Listener, Step
from calmix.recipe import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MOMENTUM = 0.9


def learning_rate(recipe: Recipe, epoch: float) -> float:
    """The rate at a moment of training, `epoch` counted with its fraction.

    Steps: linear warm-up, then a factor at each of `decay_epochs`. One-cycle: linear up to the peak over the
    first fifth, linear down to zero over the rest.
    """
    if recipe.schedule == "one-cycle":
        share = epoch / recipe.epochs
        return recipe.learning_rate * min(share / 0.2, (1 - share) / 0.8)
    warm = min(1.0, epoch / recipe.warmup_epochs) if recipe.warmup_epochs else 1.0
    return recipe.learning_rate * warm * recipe.decay_ratio ** sum(epoch >= e for e in recipe.decay_epochs)


def train_stream(
    recipe: Recipe,
    splits: Splits,
    folder: Path,
    *,
    member: int,
    fabric: "Fabric",
    listener: Listener,
    save_seconds: float,
    save_epochs: bool = False,
) -> Generator[tuple[int, Tensor], Tensor, None]:
    """Train stream `member` in `folder`, from its checkpoint if there is one.

    After every epoch it yields (epoch, its validation logits) and is sent the logits (any M, N, C) by which
    the mixer decides who is mixed next: its own, or for `gap_of="pool"` in a deep ensemble everybody's. A
    checkpoint is written when `save_seconds` have passed since the last, at the end, and with `save_epochs`
    after every epoch.
    """
    name = f"member {member}" if recipe.ensemble == "deep" else "training"
    model = build_ensemble(recipe, splits.train.shape, len(splits.classes), member)
    if fabric.world_size > 1:
        model = ensembles.synchronise(model)
    mixer = build_mixer(recipe, splits).to(fabric.device)
    augmentation = Augmentation(recipe, mixer, member)
    groups = ensembles.parameter_groups(model, weight_decay=recipe.weight_decay)
    optimiser: Any = torch.optim.SGD(
        groups, lr=recipe.learning_rate, momentum=MOMENTUM, nesterov=True, fused=True
    )
    network: Any
    network, optimiser = fabric.setup(model, optimiser)
    steps = data.steps_per_epoch(len(splits.train), recipe.batch_size)
    done: dict[str, Any] = {"epoch": 0, "step": 0, "loss": 0.0, "seconds": 0.0, "history": []}
    if state := checkpoint.load(folder, warn=listener.note, map_location=fabric.device):
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        mixer.load_state_dict(state["mixer"])
        done = {key: state[key] for key in done}
    saved = time.monotonic()
    # What other processes have observed since the epoch began is with them alone.
    within_epochs = fabric.world_size == 1 or recipe.mixing != "forgetting"

    def save() -> None:
        nonlocal saved
        if fabric.is_global_zero:
            parts = {
                "model": model.state_dict(),
                "optimiser": optimiser.state_dict(),
                "mixer": mixer.state_dict(),
            }
            checkpoint.save(folder, parts | done)
        saved = time.monotonic()

    if state is None:
        save()  # where the disk is full, it is better known now than after the first epoch

    while done["epoch"] < recipe.epochs:
        epoch, clock = done["epoch"], time.monotonic()
        network.train()
        for step, shards in _steps(recipe, splits.train, member, epoch, done["step"], fabric):
            rate = learning_rate(recipe, epoch + step / steps)
            for group in optimiser.param_groups:
                group["lr"] = rate
            optimiser.zero_grad()
            with _dropout(recipe, model, member, epoch, step, fabric):
                loss, logits, labels, index = _loss(
                    recipe, network, augmentation, shards, member, epoch, step
                )
            value = float(loss.detach())
            if not value < float("inf"):
                raise InputError(_diverged(name, value, epoch, step, rate))
            fabric.backward(loss)
            optimiser.step()
            mixer.observe(logits.detach(), labels, index)
            done["loss"] += value
            done["step"] = step + 1
            listener.step(Step(name, epoch * steps + step, recipe.epochs * steps))
            if within_epochs and time.monotonic() - saved > save_seconds:
                done["seconds"] += time.monotonic() - clock
                clock = time.monotonic()
                save()
        logits = _predict(network, splits.validation, recipe.seed, fabric)
        done["seconds"] += time.monotonic() - clock  # not the time that others take meanwhile
        deciding = yield epoch, logits
        group = splits.validation.groups if recipe.by_group else None
        mixer.update(deciding, splits.validation.labels, group=group)
        line = {"member": member, "epoch": epoch + 1, "loss": done["loss"] / steps}
        line |= _line(logits, splits.validation.labels, mixer) | {"seconds": done["seconds"]}
        done = {
            "epoch": epoch + 1,
            "step": 0,
            "loss": 0.0,
            "seconds": 0.0,
            "history": [*done["history"], line],
        }
        if save_epochs or epoch + 1 == recipe.epochs or time.monotonic() - saved > save_seconds:
            save()
            if fabric.is_global_zero:
                with files.replacing(folder / "metrics.jsonl") as file:
                    file.writelines(json.dumps(line).encode() + b"\n" for line in done["history"])
        listener.step(Step(name, (epoch + 1) * steps, recipe.epochs * steps, _news(line, recipe, steps)))


@contextlib.contextmanager
def _dropout(
    recipe: Recipe, model: torch.nn.Module, member: int, epoch: int, step: int, fabric: "Fabric"
) -> Iterator[None]:
    """Masks that are keyed as all draws are: `MCDropout` takes a seed, plain layers torch's own state."""
    if isinstance(model, ensembles.MCDropout):
        model.reseed(seeds.derive(recipe.seed, "dropout", epoch, step, fabric.global_rank))
    if isinstance(model, ensembles.MCDropout) or not recipe.dropout:
        yield
        return
    kind = fabric.device.type
    devices = [] if kind == "cpu" else [fabric.device]
    with torch.random.fork_rng(devices, device_type="cuda" if kind == "cpu" else kind):
        torch.manual_seed(seeds.derive(recipe.seed, "dropout", member, epoch, step, fabric.global_rank))
        yield


def _steps(
    recipe: Recipe, part: data.Examples, member: int, epoch: int, start: int, fabric: "Fabric"
) -> Iterator[tuple[int, list[tuple[int, data.Batch]]]]:
    """(step, this process's pieces of the batch with their numbers), from step `start` on."""
    each = recipe.shards // fabric.world_size
    mine = range(fabric.global_rank * each, (fabric.global_rank + 1) * each)
    order: dict[str, Any] = {"seed": recipe.seed, "epoch": epoch, "member": member, "start": start}
    order |= {"batch_size": recipe.batch_size, "shards": recipe.shards, "device": fabric.device}
    streams = [data.train_batches(part, shard=s, as_bytes=True, **order) for s in mine]
    for step, batches in enumerate(zip(*streams, strict=True), start=start):
        yield step, list(zip(mine, batches, strict=True))


def _loss(
    recipe: Recipe,
    network: Any,
    augmentation: Augmentation,
    shards: list[tuple[int, data.Batch]],
    member: int,
    epoch: int,
    step: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss of a step, and what an observing mixer needs: logits, labels and positions of its rows."""
    draws = [seeds.generator(recipe.seed, "draws", member, epoch, step, s) for s, _ in shards]
    views = [augmentation.views(batch, g) for (_, batch), g in zip(shards, draws, strict=True)]
    joined = [_join(pieces) for pieces in zip(*views, strict=True)]
    inputs = joined[0].inputs if len(joined) == 1 else torch.cat([view.inputs for view in joined], dim=1)
    try:
        logits = network(inputs, per_member=True).unflatten(1, (len(joined), -1)).transpose(0, 1)
    except ValueError as error:
        if "more than 1 value per channel" in str(error):
            raise InputError(
                f"a step on {inputs.shape[1]} image is too small for batch norm: use a larger --batch-size "
                "and --train-size"
            ) from None
        raise
    labels = torch.cat([batch.labels for _, batch in shards])
    index = torch.cat([batch.index for _, batch in shards])
    losses = augment.cross_entropy(logits[0], joined[0].targets)
    loss = (joined[0].weights * losses).sum(1).mean() / len(labels)
    if recipe.consistency:
        loss = loss + recipe.consistency * augment.jensen_shannon(logits).mean()
    return loss, logits[0], labels, index


def _join(pieces: Sequence[augment.Batch]) -> augment.Batch:
    """The rows of a batch's pieces, side by side."""
    if len(pieces) == 1:
        return pieces[0]
    fields = ("inputs", "targets", "weights")
    inputs, targets, weights = (torch.cat([getattr(p, name) for p in pieces], dim=1) for name in fields)
    return augment.Batch(inputs, targets, weights)


def _predict(network: Any, part: data.Examples, seed: int, fabric: "Fabric") -> Tensor:
    """Logits of the whole part on every process, each having predicted a range of it."""
    world, total = fabric.world_size, len(part)
    local = predict(network, part, seed=seed, shard=fabric.global_rank, shards=world, device=fabric.device)
    if world == 1:
        return local
    sizes = [(r + 1) * total // world - r * total // world for r in range(world)]
    padded = torch.nn.functional.pad(local, (0, 0, 0, max(sizes) - local.shape[1])).to(fabric.device)
    everyone: Any = fabric.all_gather(padded)
    return torch.cat([logits[:, :size].cpu() for logits, size in zip(everyone, sizes, strict=True)], dim=1)


def _line(logits: Tensor, labels: Tensor, mixer: Any) -> dict[str, Any]:
    pooled = pool(logits)
    gaps = [metrics.gap(member.softmax(-1), labels) for member in logits]
    line: dict[str, Any] = {"accuracy": metrics.accuracy(pooled, labels), "ece": metrics.ece(pooled, labels)}
    line |= {"gap_pool": metrics.gap(pooled, labels), "gap_members": gaps}
    if not isinstance(mixer, augment.Everyone):
        line["mixed"] = float(mixer.active.float().mean())
    return line


def _news(line: dict[str, Any], recipe: Recipe, steps: int) -> str:
    rate = steps * recipe.batch_size / max(line["seconds"], 1e-9)
    mixed = f"  mixed {100 * line['mixed']:.0f} %" if "mixed" in line else ""
    return (
        f"epoch {line['epoch']}/{recipe.epochs}  loss {line['loss']:.3f}  validation accuracy "
        f"{100 * line['accuracy']:.1f} %  gap {100 * line['gap_pool']:+.1f}{mixed}  {rate:,.0f} images/s"
    )


def _diverged(name: str, value: float, epoch: int, step: int, rate: float) -> str:
    return (
        f"{name}: the loss is {value} at epoch {epoch + 1}, step {step}, learning rate {rate:.4g}. Try a "
        "lower --learning-rate or a longer --warmup-epochs; the last good checkpoint is kept."
    )
