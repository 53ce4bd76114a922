"""Presets: the paper's hyper-parameters, and the same recipes shrunk to a laptop and to a smoke test.

Each table reads as the paper's: a row for each ensemble, a column for each quantity. What the authors'
scripts did otherwise is `paper_code`.
"""

import dataclasses
from typing import Any

from calmix import data
from calmix.errors import one_of
from calmix.models import NETWORKS
from calmix.runs import own
from calmix.runs.augmentation import parse_augmentation
from calmix.runs.code import is_code
from calmix.runs.defaults import derived_fields, optimiser_fields
from calmix.runs.recipe import ENSEMBLES, NETWORK_OPTIONS, OPTIMISERS, Recipe, gather_options

SCALES = ("paper", "laptop", "smoke")

CIFAR_NORMAL = {"mean": (0.4914, 0.4822, 0.4465), "std": (0.2470, 0.2435, 0.2616)}
IMAGENET_NORMAL = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}

# A data set's own fields, at every scale. Digits are never flipped and shifted by a pixel at most; an image
# folder is cropped and flipped where it is decoded.
DATA: dict[str, dict[str, Any]] = {
    "cifar10": {**CIFAR_NORMAL, "pad": 4, "flip": True, "validation_size": 2500},
    "cifar100": {**CIFAR_NORMAL, "pad": 4, "flip": True, "validation_size": 2500},
    "fashion-mnist": {"mean": (0.2860,), "std": (0.3530,), "pad": 2, "flip": True, "validation_size": 2500},
    "mnist": {"mean": (0.1307,), "std": (0.3081,), "pad": 1, "flip": False, "validation_size": 2500},
    "digits": {"mean": (0.3,), "std": (0.38,), "pad": 1, "flip": False, "validation_size": 300},
    "clusters": {"pad": 0, "flip": False, "validation_size": 100},
    "folder": {**IMAGENET_NORMAL, "pad": 0, "flip": False, "validation_size": 25000},
}

# Keras adds l2 * |w|^2 to the loss, whose gradient is 2 * l2 * w: torch's weight_decay is twice the l2
# printed.
CIFAR_NETWORK = {"network": "wide_resnet", "depth": 28, "width": 10, "batch_size": 128, "learning_rate": 0.1}
CIFAR_200 = {"epochs": 200, "decay_epochs": (60, 120, 160), "decay_ratio": 0.2}
CIFAR_250 = {"epochs": 250, "decay_epochs": (80, 160, 200), "decay_ratio": 0.1}
CIFAR: dict[str, dict[str, Any]] = {
    "single": {"members": 1, **CIFAR_200, "weight_decay": 2 * 2e-4},
    "deep": {"members": 4, **CIFAR_200, "weight_decay": 2 * 2e-4},
    "mc": {"members": 20, **CIFAR_200, "weight_decay": 2 * 3e-4, "learning_rate": 0.05, "dropout": 0.1},
    "batch": {"members": 4, **CIFAR_250, "weight_decay": 2 * 1e-4, "init_std": 0.5, "member_norm": False},
}
CIFAR100_BATCH = {"weight_decay": 2 * 3e-4, "init_std": 0.75, "member_norm": True}

IMAGENET: dict[str, Any] = {
    "network": "resnet50",
    "epochs": 135,
    "decay_epochs": (45, 90, 120),
    "decay_ratio": 0.1,
    "warmup_epochs": 5.0,
    "batch_size": 4096,
    "learning_rate": 0.1 * 4096 / 256,
    "weight_decay": 2 * 1e-4,
    "init_std": 0.75,
    "member_norm": True,
}
IMAGENET_ENSEMBLE: dict[str, dict[str, Any]] = {
    "single": {"members": 1},
    "deep": {"members": 4},
    "mc": {"members": 20, "dropout": 0.1},
    "batch": {"members": 4},
}

# The paper's toy: three-layer perceptrons on five clusters. Small enough to be the same at paper and laptop
# scale. At a rate that falls to 0 four of them agree everywhere, and a pool is its members once more; with
# few points they agree less.
CLUSTERS = {
    **{"network": "mlp", "hidden": 64, "train_size": 100, "epochs": 300, "batch_size": 32},
    **{"learning_rate": 0.1, "weight_decay": 0.0, "schedule": "steps", "decay_epochs": ()},
}

# Minutes on two cores: few training images, so that a small network fits them, as the paper's fit theirs.
LAPTOP = {
    "network": "small_resnet",
    "schedule": "one-cycle",
    "warmup_epochs": 0.0,
    "decay_epochs": (),
    "corruption_size": 500,
}
LAPTOP_DATA: dict[str, dict[str, Any]] = {
    "mnist": {"train_size": 1000, "width": 16, "epochs": 150, "batch_size": 64, "validation_size": 1000},
    "fashion-mnist": {
        "train_size": 5000,
        "width": 16,
        "epochs": 150,
        "batch_size": 64,
        "validation_size": 1000,
    },
    "cifar10": {"train_size": 4000, "width": 32, "epochs": 80, "batch_size": 64, "validation_size": 1000},
    "cifar100": {"train_size": 5000, "width": 32, "epochs": 80, "batch_size": 64},
    "digits": {"width": 16, "epochs": 60, "batch_size": 64, "corruption_size": None},
    "folder": {
        **{"width": 32, "epochs": 20, "image_size": 64, "validation_size": 100},
        **{"batch_size": 64, "learning_rate": 0.1 * 64 / 256},
    },
}
LAPTOP_MEMBERS = {"single": 1, "deep": 4, "batch": 4, "mc": 20}

SMOKE: dict[str, Any] = {
    "train_size": 120,
    "validation_size": 60,
    "test_size": 100,
    "corruption_size": 50,
    "epochs": 2,
    "batch_size": 40,
    "width": 8,
    "hidden": 8,
}
SMOKE_MEMBERS = {"single": 1, "deep": 2, "batch": 2, "mc": 3}

MIXING_ALPHA = {"regmixup": {"cifar100": 10.0, "": 20.0}}

# What the authors' scripts did where the paper says otherwise: the methods, then the training on CIFAR.
PAPER_CODE: dict[str, Any] = {
    "partner": "reversed",
    "fold": True,
    "forgetting_rule": "pair",
    "augmix_alpha": 0.5,
    "augmix_clean_first": True,
}
PAPER_CODE_CIFAR: dict[str, Any] = {"pad": 2, "std": (0.2023, 0.1994, 0.2010)}
PAPER_CODE_BATCH = {"decay_epochs": (100, 200, 225), "decay_ratio": 0.2}
PAPER_CODE_LARGE_BATCH = 512


def preset(
    dataset: Any,
    ensemble: str,
    augment: str = "none",
    *,
    scale: str = "laptop",
    paper_code: bool = False,
    seed: int = 0,
    network: Any = None,
    optimiser: str | None = None,
) -> Recipe:
    """The recipe of a data set, an ensemble and an augmentation at a scale.

    The data set, the network and the mixing may be the user's own, as `calmix.train` takes them; what no
    preset knows is then derived from the data (`calmix.runs.defaults`).

    >>> recipe = preset("cifar100", "batch", "augmix+camixup", scale="paper")
    >>> recipe.epochs, recipe.decay_epochs, recipe.weight_decay, recipe.member_norm
    (250, (80, 160, 200), 0.0006, True)
    """
    one_of("ensemble", ensemble, ENSEMBLES)
    one_of("scale", scale, SCALES)
    if optimiser is not None:
        one_of("optimiser", optimiser, OPTIMISERS)
    augmentation = dataclasses.asdict(parse_augmentation(augment))
    given: dict[str, Any] = {} if network is None else {"network": network}
    if is_code(augmentation["mixing"]):
        given["mixing"] = augmentation.pop("mixing")
    if not (isinstance(dataset, str) and dataset in data.NAMES):
        recipe = _own_data(dataset, ensemble, augmentation, scale, network, optimiser)
        given.pop("network", None)
        return dataclasses.replace(recipe.with_own(**given) if given else recipe, seed=seed)
    recipe = _built_in(dataset, ensemble, augmentation, scale=scale, paper_code=paper_code, seed=seed)
    if optimiser not in (None, recipe.optimiser):
        recipe = recipe.replace(**optimiser_fields(optimiser or "sgd", recipe.epochs))
    return recipe.with_own(**given) if given else recipe


def _own_data(
    dataset: Any,
    ensemble: str,
    augmentation: dict[str, Any],
    scale: str,
    network: Any,
    optimiser: str | None,
) -> Recipe:
    """The recipe for data of the user's own, with a built-in network unless one is given."""
    if isinstance(network, str) and not is_code(network):
        one_of("network", network, NETWORKS)
    whole, found = own.dataset_fields(dataset)
    assert whole is not None
    fields: dict[str, Any] = {"ensemble": ensemble, "scale": scale, **augmentation}
    folder = isinstance(whole.train, data.ImageFiles)
    if folder:
        of_folder = preset("folder", ensemble, scale=scale, optimiser=optimiser)
        fields = vars(of_folder) | fields
        if scale == "paper":
            fields["validation_size"] = min(fields["validation_size"], len(whole.train) // 5)
    else:
        fields |= derived_fields(whole, network=network, optimiser=optimiser)
        fields["members"] = LAPTOP_MEMBERS[ensemble]
    if ensemble == "mc":
        fields["dropout"] = 0.1
    fields["alpha"] = MIXING_ALPHA.get(augmentation.get("mixing", ""), {}).get("", 1.0)
    if scale == "smoke":
        fields |= _shrunk(fields, whole) | {"members": SMOKE_MEMBERS[ensemble]}
    if network is not None:
        of_network = own.function_fields("network", network)
        found |= {name: found[name] | of_network.pop(name) for name in ("digests", "paths")} | of_network
        if is_code(found["network"]):
            fields = {name: value for name, value in fields.items() if name not in NETWORK_OPTIONS}
            fields["network_options"] = {}
    found |= {name: own.merge({}, found[name]) for name in ("digests", "paths")}
    return Recipe(**gather_options(fields | found))


def _shrunk(fields: dict[str, Any], whole: data.DataSet) -> dict[str, Any]:
    """The sizes of a smoke test, where the data have as many examples; a network of the user's own stays."""
    names = ("train_size", "validation_size", "test_size", "corruption_size", "epochs", "batch_size")
    changed = {name: SMOKE[name] for name in names}
    changed["validation_size"] = min(SMOKE["validation_size"], fields["validation_size"])
    held_out = 0 if whole.validation is not None else changed["validation_size"]
    changed["train_size"] = min(SMOKE["train_size"], len(whole.train) - held_out)
    changed["batch_size"] = min(SMOKE["batch_size"], changed["train_size"])
    return changed | {name: SMOKE[name] for name in ("width", "hidden") if name in fields}


def _built_in(
    dataset: str, ensemble: str, augmentation: dict[str, Any], *, scale: str, paper_code: bool, seed: int
) -> Recipe:
    augmentation = {"mixing": "none", **augmentation}
    fields: dict[str, Any] = {"dataset": dataset, "ensemble": ensemble, "scale": scale, "seed": seed}
    fields |= augmentation | DATA[dataset] | _paper(dataset, ensemble)
    alphas = MIXING_ALPHA.get(augmentation["mixing"], {})
    fields["alpha"] = alphas.get(dataset, alphas.get("", 1.0))
    if paper_code:
        fields |= _paper_code(dataset, ensemble, scale, fields)
    if scale != "paper" and dataset != "clusters":
        fields |= LAPTOP | LAPTOP_DATA[dataset]
        fields["members"] = LAPTOP_MEMBERS[ensemble]
    if scale == "smoke":
        fields |= SMOKE | {"members": SMOKE_MEMBERS[ensemble]}
    if fields["network"] != "wide_resnet":
        fields.pop("depth", None)
    fields.pop("width" if fields["network"] == "mlp" else "hidden", None)
    return Recipe(**gather_options(fields))


def _paper(dataset: str, ensemble: str) -> dict[str, Any]:
    if dataset == "folder":
        return IMAGENET | IMAGENET_ENSEMBLE[ensemble]
    fields = CIFAR_NETWORK | CIFAR[ensemble]
    if dataset == "cifar100" and ensemble == "batch":
        fields |= CIFAR100_BATCH
    if dataset == "clusters":
        fields |= CLUSTERS
    return fields


def _paper_code(dataset: str, ensemble: str, scale: str, fields: dict[str, Any]) -> dict[str, Any]:
    changed = dict(PAPER_CODE)
    if fields["mixing"] in ("cutmix", "regmixup", "mixupmp"):  # not in the scripts
        del changed["partner"], changed["fold"]
    if dataset not in ("cifar10", "cifar100"):
        return changed
    changed |= PAPER_CODE_CIFAR
    if scale != "paper":  # other scales have batches and schedules of their own
        return changed
    if ensemble == "batch":
        return changed | PAPER_CODE_BATCH
    larger = PAPER_CODE_LARGE_BATCH / fields["batch_size"]
    return changed | {
        "batch_size": PAPER_CODE_LARGE_BATCH,
        "learning_rate": fields["learning_rate"] * larger,
    }
