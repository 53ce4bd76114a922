"""From a recipe to things: data, networks, and the augmentation of a batch."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from calmix import augment, data, ensembles, models
from calmix.errors import InputError
from calmix.recipe import Recipe
from calmix.seeds import derive

SPLIT_SEED = 0  # the split belongs to the data: all methods and seeds train on the same images


@dataclass(frozen=True)
class Splits:
    """The parts of a data set that a run uses; `test_index` are positions in the whole test set."""

    train: data.Examples
    validation: data.Examples
    test: data.Examples
    test_index: Tensor
    classes: tuple[str, ...]
    group_names: tuple[str, ...] | None


def load_splits(recipe: Recipe, root: Path | None) -> Splits:
    """The run's training, validation and test images; what is held out is the same for every method."""
    whole = data.load(recipe.dataset, root)
    rest, held_out = data.split(whole.train.labels, recipe.validation_size, seed=SPLIT_SEED)
    train, validation, test = whole.train.take(rest), whole.train.take(held_out), whole.test
    if recipe.train_on_validation:
        train = whole.train
    if recipe.train_size:
        if recipe.train_size > len(train):
            raise InputError(
                f"--train-size {recipe.train_size}: validation leaves {len(train)} images to train on"
            )
        train = train.take(subset(train.labels, recipe.train_size))
    kept = subset(test.labels, recipe.test_size)
    train, validation, test = (_sized(p, recipe.image_size) for p in (train, validation, test.take(kept)))
    return Splits(train, validation, test, kept, whole.classes, whole.group_names)


def subset(labels: Tensor, size: int) -> Tensor:
    """Positions of `size` examples, evenly over the classes; of all where size is 0 or more than there
    are."""
    if 0 < size < len(labels):
        return data.split(labels, size, seed=SPLIT_SEED)[1]
    return torch.arange(len(labels))


def _sized(part: data.Examples, size: int) -> data.Examples:
    return dataclasses.replace(part, size=size) if isinstance(part, data.ImageFiles) else part


def build_network(recipe: Recipe, shape: Sequence[int], num_classes: int) -> nn.Module:
    """One plain network for examples of `shape`, (C, H, W) or (F,)."""
    options: dict[str, Any] = {"dropout": recipe.dropout}
    options |= {name: value for name in ("mean", "std") if (value := getattr(recipe, name))}
    if recipe.network == "mlp":
        options["in_channels"] = shape[0] if len(shape) > 1 else None
        return models.mlp(torch.Size(shape).numel(), recipe.width, num_classes, **options)
    if len(shape) != 3:
        raise InputError(f"--network {recipe.network} is for images; {recipe.dataset} needs --network mlp")
    options["in_channels"] = shape[0]
    if recipe.network == "small_resnet":
        return models.small_resnet(num_classes, width=recipe.width, **options)
    if recipe.network == "wide_resnet":
        options["filterwise"] = recipe.filterwise_dropout
        return models.wide_resnet(recipe.depth, recipe.width, num_classes, **options)
    return models.resnet50(num_classes, **options)


def build_ensemble(
    recipe: Recipe, shape: Sequence[int], num_classes: int, member: int | None = None
) -> nn.Module:
    """The ensemble in its first state; of a deep one, only `member` if it is given.

    Member k's weights depend on the run's seed and k alone.
    """
    deep = range(recipe.members) if recipe.ensemble == "deep" else range(1)
    networks = []
    for k in deep if member is None else [member]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(recipe.seed, "network", k))
            networks.append(build_network(recipe, shape, num_classes))
    if recipe.ensemble == "batch":
        generator = torch.Generator().manual_seed(derive(recipe.seed, "members"))
        return ensembles.BatchEnsemble(
            networks[0],
            recipe.members,
            init_std=recipe.init_std,
            sign_probability=recipe.sign_probability or None,
            member_norm=recipe.member_norm,
            generator=generator,
        )
    if recipe.ensemble == "mc":
        return ensembles.MCDropout(networks[0], recipe.members)
    return ensembles.DeepEnsemble(networks)


def build_mixer(recipe: Recipe, splits: Splits) -> augment.Mixer:
    """Who is mixed, and how. A deep ensemble has a mixer for each member, which sees that member alone."""
    members = recipe.members if recipe.ensemble == "batch" else 1
    num_classes = len(splits.classes)
    if recipe.mixing == "none":
        return augment.Unmixed(num_classes)
    pairs: dict[str, Any] = {"alpha": recipe.alpha}
    rule: Any = recipe.forgetting_rule
    partner: Any = recipe.partner
    gap_of: Any = "pool" if recipe.ensemble == "mc" else recipe.gap_of
    if recipe.mixing == "forgetting":
        return augment.ForgettingMixup(
            num_classes, len(splits.train), members, rule=rule, partner=partner, **pairs
        )
    if recipe.mixing in ("camixup", "cutmix-camixup"):
        if recipe.by_group and splits.group_names is None:
            raise InputError(f"--by-group: {recipe.dataset} has no groups besides its classes")
        return augment.CAMixup(
            num_classes,
            members,
            gap_of=gap_of,
            num_groups=len(splits.group_names) if recipe.by_group and splits.group_names else None,
            mix="cutmix" if recipe.mixing == "cutmix-camixup" else "mixup",
            partner=partner,
            **pairs,
        )
    pairs |= {"partner": partner, "fold": recipe.fold}
    if recipe.mixing == "mixupmp":
        return augment.MixupMP(num_classes, members=members, **pairs)
    kind = {"mixup": augment.Mixup, "cutmix": augment.CutMix, "regmixup": augment.RegMixup}[recipe.mixing]
    return kind(num_classes, **pairs)


class Augmentation:
    """A training batch as the network sees it: crop and flip, AugMix, mixing, then softer labels."""

    def __init__(self, recipe: Recipe, mixer: augment.Mixer, member: int) -> None:
        self.recipe = recipe
        self.mixer = mixer
        augmix = augment.AugMix(severity=recipe.severity, alpha=recipe.augmix_alpha)
        clean = recipe.augmix_clean_first and member == 0 and recipe.ensemble == "deep"
        self.augmix = None if recipe.transform == "none" or clean else augmix

    def views(self, batch: data.Batch, generator: torch.Generator) -> list[augment.Batch]:
        """One view of every image; for a consistency term the clean one and two of AugMix, mixed alike."""
        recipe = self.recipe
        images = batch.inputs
        if recipe.pad or recipe.flip:
            images = augment.crop_flip(images, pad=recipe.pad, flip=recipe.flip, generator=generator)
        views = self._transform(data.as_floats(images), generator)
        leading = views[0].shape[: views[0].ndim - images.ndim]  # members that see images of their own
        labels, index, groups = (
            None if column is None else column.expand(*leading, -1)
            for column in (batch.labels, batch.index, batch.groups if recipe.by_group else None)
        )
        assert labels is not None
        plan = self.mixer.plan(labels, group=groups, index=index, generator=generator)
        return [self._soften(plan(view)) for view in views]

    def _transform(self, images: Tensor, generator: torch.Generator) -> list[Tensor]:
        recipe = self.recipe
        if self.augmix is None:
            return [images]
        if recipe.consistency:
            return [images, *(self.augmix(images, generator=generator) for _ in range(2))]
        if recipe.augmix_clean_first and recipe.ensemble == "batch":
            others = images.expand(recipe.members - 1, *images.shape)
            return [torch.cat([images[None], self.augmix(others, generator=generator)])]
        return [self.augmix(images, generator=generator)]

    def _soften(self, batch: augment.Batch) -> augment.Batch:
        if not self.recipe.smoothing:
            return batch
        targets = augment.smooth_labels(batch.targets, self.recipe.smoothing)
        return augment.Batch(batch.inputs, targets, batch.weights)
