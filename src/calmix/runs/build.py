"""From a recipe to objects: data, networks, ensembles, mixers."""

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from calmix import augment, data, ensembles, models
from calmix.errors import InputError, at_least, at_most, one_of
from calmix.memory import check_fits
from calmix.runs.recipe import Recipe
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
    group_names: tuple[str, ...] | None = None


def load_splits(recipe: Recipe, data_root: Path | None) -> Splits:
    """Training, validation and test images of a run; what is held out is the same for every method."""
    whole = data.load(recipe.dataset, data_root)
    rest, held_out = data.split(whole.train.labels, recipe.validation_size, seed=SPLIT_SEED)
    train, validation = whole.train.take(rest), whole.train.take(held_out)
    if recipe.train_on_validation:
        train = whole.train
    if recipe.train_size is not None and recipe.train_size > len(train):
        raise InputError(f"train_size {recipe.train_size}: validation leaves {len(train)} images to train on")
    if recipe.train_size is not None:
        train = train.take(subset(train.labels, recipe.train_size))
    if min(recipe.batch_size, len(train)) % recipe.shards:
        raise InputError(f"{len(train)} training images do not divide into {recipe.shards} shards")
    kept = subset(whole.test.labels, recipe.test_size)
    parts = (train, validation, whole.test.take(kept))
    train, validation, test = (
        dataclasses.replace(part, size=recipe.image_size) if isinstance(part, data.ImageFiles) else part
        for part in parts
    )
    return Splits(train, validation, test, kept, whole.classes, whole.group_names)


def subset(labels: Tensor, size: int | None) -> Tensor:
    """Positions of `size` examples, evenly over the classes; of all where there are not more."""
    if size is None or size >= len(labels):
        return torch.arange(len(labels))
    return data.split(labels, size, seed=SPLIT_SEED)[1]


# Options of networks above which none fits into any memory, or takes for ever to build.
LARGEST = {"depth": 10_000, "width": 1_000_000, "hidden": 100_000_000}

# name: the model, and options that it has no default for
NETWORKS: dict[str, tuple[Callable[..., nn.Module], dict[str, Any]]] = {
    "small_resnet": (models.small_resnet, {}),
    "wide_resnet": (models.wide_resnet, {"depth": 28, "width": 10}),
    "resnet50": (models.resnet50, {}),
    "mlp": (models.mlp, {"hidden": 64}),
}


def build_network(recipe: Recipe, shape: Sequence[int], num_classes: int) -> nn.Module:
    """One plain network for examples of `shape`, (C, H, W) or (F,)."""
    model, defaults = NETWORKS[recipe.network]
    if recipe.network != "mlp" and len(shape) != 3:
        raise InputError(f"{recipe.network} is for images; {recipe.dataset} needs network='mlp'")
    valid = sorted(inspect.signature(model).parameters.keys() - {"num_classes", "in_channels", "in_features"})
    options = recipe.network_options
    given: dict[str, Any] = {"in_channels": shape[0] if len(shape) > 1 else None}
    if recipe.network == "mlp":
        given["in_features"] = torch.Size(shape).numel()
    for name in options:
        one_of(f"option of {recipe.network}", name, valid)
    try:
        for name in {"depth", "width", "hidden"} & options.keys():
            at_least(name, options[name], 1)
            at_most(name, options[name], LARGEST[name])
        return model(num_classes=num_classes, **given, **defaults | options)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"network_options {options} do not fit {recipe.network}: {error}") from None


def build_ensemble(
    recipe: Recipe, shape: Sequence[int], classes: int, member: int | None = None
) -> nn.Module:
    """The untrained ensemble; of a deep one, only `member` if it is given.

    Member k's weights depend on the run's seed and k alone.
    """
    networks = []
    for k in range(recipe.streams) if member is None else [member]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(recipe.seed, "network", k))
            networks.append(build_network(recipe, shape, classes))
    if recipe.ensemble == "batch":
        return ensembles.BatchEnsemble(
            networks[0],
            recipe.members,
            init_std=recipe.init_std,
            sign_probability=recipe.sign_probability,
            member_norm=recipe.member_norm,
            generator=torch.Generator().manual_seed(derive(recipe.seed, "members")),
        )
    if recipe.ensemble == "mc":
        return ensembles.MCDropout(networks[0], recipe.members)
    return ensembles.DeepEnsemble(networks)


def build_mixer(recipe: Recipe, splits: Splits) -> augment.Mixer:
    """The mixer of one stream of training: a deep ensemble has one for each member."""
    classes, members = len(splits.classes), recipe.members if recipe.ensemble == "batch" else 1
    pairs: dict[str, Any] = {"alpha": recipe.alpha, "partner": recipe.partner}
    if recipe.mixing == "none":
        return augment.NoMixing(classes)
    if recipe.mixing == "forgetting":
        examples, rule = len(splits.train), recipe.forgetting_rule
        return augment.ForgettingMixup(classes, examples, members=members, rule=rule, **pairs)  # type: ignore[arg-type]
    if recipe.needs_validation:
        if recipe.by_group and splits.group_names is None:
            raise InputError(f"by_group: {recipe.dataset} has no groups besides its classes")
        pairs["num_groups"] = len(splits.group_names or ()) if recipe.by_group else None
        pairs["mix"] = "cutmix" if recipe.mixing == "cutmix-camixup" else "mixup"
        gap_of: Any = "pool" if recipe.ensemble == "mc" else recipe.gap_of
        return augment.CAMixup(classes, members=members, gap_of=gap_of, **pairs)
    pairs["fold"] = recipe.fold
    if recipe.mixing == "mixupmp":
        return augment.MixupMP(classes, members=members, **pairs)
    kind = {"mixup": augment.Mixup, "cutmix": augment.CutMix, "regmixup": augment.RegMixup}[recipe.mixing]
    return kind(classes, **pairs)


def check_build(recipe: Recipe, splits: Splits) -> None:
    """Refuse what cannot be built, at no cost: a network larger than the free memory, and the mixer."""
    size = network_bytes(recipe, splits.train.shape, len(splits.classes))
    # One network at a time is trained, with its gradient and momentum; the ensemble has them all.
    check_fits(f"{recipe.network} {recipe.network_options}", size * max(3, recipe.streams))
    if recipe.ensemble == "batch":
        rows = recipe.members * min(recipe.batch_size, len(splits.train)) * recipe.rows_per_image
        check_fits(f"members={recipe.members}", 4 * rows * math.prod(splits.train.shape))
    build_mixer(recipe, splits)


def network_bytes(recipe: Recipe, shape: Sequence[int], classes: int) -> int:
    """Bytes of one network's parameters, which is not allocated."""
    try:
        with torch.device("meta"):
            network = build_network(recipe, shape, classes)
        return sum(parameter.numel() * parameter.element_size() for parameter in network.parameters())
    except (RuntimeError, OverflowError) as error:  # more than 2^63 numbers
        reason = str(error).splitlines()[0]
        raise InputError(f"network_options {recipe.network_options} cannot be built: {reason}") from None


def check_size(recipe: Recipe, shape: Any, classes: Any, weights: Mapping[str, Tensor]) -> None:
    """Refuse to build a network that is larger than the weights for it."""
    if not all(type(number) is int and 0 < number < 2**31 for number in (*shape, classes)):
        raise ValueError(f"its shape is {shape} with {classes} classes")
    kept = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    if (size := recipe.streams * network_bytes(recipe, shape, classes)) > kept:
        raise ValueError(f"the network has {size:,} bytes, and the file {kept:,}")
