"""From a recipe to objects: data, networks, ensembles, mixers."""

import dataclasses
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from calmix import augment, data, ensembles, models
from calmix.errors import InputError, at_least, at_most, one_of
from calmix.memory import check_fits
from calmix.runs import code
from calmix.runs.embedding import Embedded, find_module, mix_points, offers_embeddings
from calmix.runs.own import load_data
from calmix.runs.recipe import Recipe
from calmix.runs.standardise import Standardised
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
    """Training, validation and test images of a run; what is held out is the same for every method.

    A validation part that the data set has is used as it is, or evenly over the classes less of it.
    """
    whole = load_data(recipe, data_root)
    if whole.validation is None:
        rest, held_out = data.split(whole.train.labels, recipe.validation_size, seed=SPLIT_SEED)
        validation = whole.train.take(held_out)
    else:
        rest, held_out = torch.arange(len(whole.train)), torch.arange(0)
        if recipe.validation_size > len(whole.validation):
            raise InputError(
                f"validation_size {recipe.validation_size}: {recipe.dataset} has {len(whole.validation)} "
                "examples for validation"
            )
        validation = whole.validation.take(subset(whole.validation.labels, recipe.validation_size))
        if recipe.train_on_validation:
            raise InputError(
                f"train_on_validation: {recipe.dataset} has a validation part of its own; add it to x_train "
                "in the data instead"
            )
    if recipe.train_size is not None:
        if recipe.train_size > len(rest):
            raise InputError(
                f"train_size {recipe.train_size}: validation leaves {len(rest)} images to train on"
            )
        rest = rest[subset(whole.train.labels[rest], recipe.train_size)]
    if recipe.train_on_validation:  # besides those that the other reading trains on
        rest = torch.cat([rest, held_out]).sort().values
    train = whole.train if len(rest) == len(whole.train) else whole.train.take(rest)
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


def build_network(recipe: Recipe, shape: Sequence[int], num_classes: int) -> nn.Module:
    """One plain network for examples of `shape`, (C, H, W) or (F,), with what calmix puts around it."""
    if code.is_code(recipe.network):
        network = _own_network(recipe, shape, num_classes)
    else:
        network = _known_network(recipe, shape, num_classes)
    if not recipe.mix_after and offers_embeddings(network):
        network = Embedded(network)
    return Standardised(network, shape[0]) if recipe.standardise else network


def _own_network(recipe: Recipe, shape: Sequence[int], num_classes: int) -> nn.Module:
    """A network of the user's own: called with shape, num_classes and the options, nothing else."""
    make = code.load("network", recipe.code("network"))
    options = {"shape": tuple(shape), "num_classes": num_classes, **recipe.network_options}
    network = code.call("network", recipe.network, make, **options)
    if not isinstance(network, nn.Module):
        raise InputError(
            f"network {recipe.network} must return a torch.nn.Module, got {type(network).__name__}"
        )
    return network


def _known_network(recipe: Recipe, shape: Sequence[int], num_classes: int) -> nn.Module:
    model, defaults = models.NETWORKS[recipe.network]
    if recipe.network != "mlp" and len(shape) != 3:
        raise InputError(
            f"{recipe.network} is for images; {recipe.dataset} needs network='mlp' or one of your own"
        )
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
        shared: dict[str, Any] = {"share": recipe.share} if recipe.share else {}
        return ensembles.BatchEnsemble(
            networks[0],
            recipe.members,
            init_std=recipe.init_std,
            sign_probability=recipe.sign_probability,
            member_norm=recipe.member_norm,
            generator=torch.Generator().manual_seed(derive(recipe.seed, "members")),
            **shared,
        )
    if recipe.ensemble == "mc":
        return ensembles.MCDropout(networks[0], recipe.members)
    return ensembles.DeepEnsemble(networks)


def build_mixer(recipe: Recipe, splits: Splits) -> augment.Mixer:
    """The mixer of one stream of training: a deep ensemble has one for each member."""
    classes, members = len(splits.classes), recipe.members_per_stream
    pairs: dict[str, Any] = {"alpha": recipe.alpha, "partner": recipe.partner}
    if recipe.mixing == "none":
        return augment.NoMixing(classes)
    if code.is_code(recipe.mixing):
        return _own_mixer(recipe, classes, members)
    if recipe.mixing == "forgetting":
        examples, rule = len(splits.train), recipe.forgetting_rule
        return augment.ForgettingMixup(classes, examples, members=members, rule=rule, **pairs)  # type: ignore[arg-type]
    if recipe.needs_validation:
        if recipe.by_group and splits.group_names is None:
            raise InputError(f"by_group: {recipe.dataset} has no groups besides its classes")
        pairs["num_groups"] = len(splits.group_names or ()) if recipe.by_group else None
        pairs["mix"] = "cutmix" if recipe.mixing == "cutmix-camixup" else "mixup"
        pairs |= {"margin": recipe.margin, "momentum": recipe.momentum}
        gap_of: Any = "pool" if recipe.ensemble == "mc" else recipe.gap_of
        return augment.CAMixup(classes, members=members, gap_of=gap_of, **pairs)
    kind = recipe.augmentation.kind
    assert kind.mixer is not None
    return kind.mixer(classes, members=members if kind.draws_per_member else 1, fold=recipe.fold, **pairs)


def _own_mixer(recipe: Recipe, classes: int, members: int) -> augment.Mixer:
    """A mixer of the user's own, or Mixup where a policy of the user's own says so."""
    make = code.load("mixing", recipe.code("mixing"))
    mixer = code.call("mixing", recipe.mixing, make, num_classes=classes, members=members)
    if isinstance(mixer, augment.Mixer):
        return mixer
    if not callable(mixer):
        raise InputError(
            f"mixing {recipe.mixing} must return a calmix mixer, or a policy(y, group, index), got "
            f"{type(mixer).__name__}"
        )
    partner: Any = recipe.partner
    return augment.Mixup(
        classes, alpha=recipe.alpha, members=members, where=mixer, partner=partner, fold=recipe.fold
    )


def check_build(recipe: Recipe, splits: Splits) -> None:
    """Refuse what cannot be built or does not fit the data, before training starts.

    Built-in networks are built without memory; one of the user's own sees two examples.
    """
    shape, classes = splits.train.shape, len(splits.classes)
    _check_augmentation(recipe, splits)
    if code.is_code(recipe.network):
        _check_network(recipe, splits)
    else:
        # One network at a time is trained, with its gradient and momentum; the ensemble has them all.
        size = network_bytes(recipe, shape, classes)
        check_fits(f"{recipe.network} {recipe.network_options}", size * max(3, recipe.streams))
        if recipe.mix_after:
            with torch.device("meta"):
                find_module(build_network(recipe, shape, classes), recipe.mix_after)
    if recipe.ensemble == "batch":
        rows = recipe.members * min(recipe.batch_size, len(splits.train)) * recipe.rows_per_image
        check_fits(f"members={recipe.members}", 4 * rows * math.prod(shape))
    build_mixer(recipe, splits)


def _check_augmentation(recipe: Recipe, splits: Splits) -> None:
    """What works on pixels needs images; token ids are mixed as embeddings."""
    kind, shape = data.kind_of(splits.train), splits.train.shape
    if len(shape) != 3 or kind == "tokens":
        wrong = {"transform": recipe.transform != "none", "pad": recipe.pad, "flip": recipe.flip}
        for name in (name for name, on in wrong.items() if on):
            raise InputError(
                f"{name}={getattr(recipe, name)} is for images, and {recipe.dataset} has {kind} examples of "
                f"shape {shape}: leave it out"
            )
        if "cutmix" in recipe.mixing:
            raise InputError(
                f"{recipe.mixing} cuts images, and {recipe.dataset} has {kind} examples: use mixup"
            )
    if recipe.consistency and recipe.mix_after:
        raise InputError("consistency compares several views, and mix_after mixes one: choose one of them")
    if kind == "tokens" and recipe.standardise:
        raise InputError(f"standardise=True is for numbers, and {recipe.dataset} has tokens: leave it out")


def _check_network(recipe: Recipe, splits: Splits) -> None:
    """Two examples through a network of the user's own: logits (2, classes), each row for itself."""
    shape, classes = splits.train.shape, len(splits.classes)
    index = torch.arange(2) % len(splits.train)
    x = data.as_floats(next(iter(splits.train.read([index]))))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(recipe.seed, "check"))
        network = build_network(recipe, shape, classes).eval()
        what = f"network {recipe.network}, called on {tuple(x.shape)},"
        with torch.no_grad(), code.in_words(what):
            logits, again, reversed_ = network(x.clone()), network(x.clone()), network(x.flip(0))
        if not isinstance(logits, Tensor) or logits.shape != (2, classes):
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise InputError(
                f"network {recipe.network} must return logits (2, {classes}) for two examples of shape "
                f"{tuple(shape)}, batch first, and returned {got}"
            )
        if not logits.is_floating_point() or not logits.isfinite().all():
            raise InputError(
                f"network {recipe.network} must return finite floats, got {logits.dtype} {logits.tolist()}"
            )
        close = torch.allclose(logits, reversed_.flip(0), rtol=1e-3, atol=1e-4)
        if torch.equal(logits, again) and not close:  # one that draws in evaluation cannot be compared
            raise InputError(
                f"network {recipe.network} treats an example otherwise at another place of the batch: is the "
                "batch its first axis?"
            )
        tokens = data.kind_of(splits.train) == "tokens"
        inside = recipe.mix_after or any(isinstance(part, Embedded) for part in network.modules())
        if tokens and recipe.mixing != "none" and not inside:
            raise InputError(
                f"{recipe.mixing} cannot mix token ids: let network {recipe.network} offer embed(x) and "
                "forward_embedded(e), or name a module whose output is mixed with mix_after"
            )
        with torch.no_grad(), code.in_words(f"network {recipe.network}, as ensemble {recipe.ensemble!r},"):
            model = build_ensemble(recipe, shape, classes, 0)
            if recipe.mix_after:
                mix_points(model, recipe.mix_after)
            model.eval()(x)


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
