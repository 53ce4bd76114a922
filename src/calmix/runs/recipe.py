"""Recipe of a run: a frozen record, complete enough to repeat the run anywhere."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from calmix import data
from calmix.errors import InputError, above, at_least, at_most, one_of
from calmix.models import NETWORKS
from calmix.records import from_plain, to_json, typed_fields
from calmix.runs import own
from calmix.runs.augmentation import Augmentation
from calmix.runs.code import Code, is_code


class EnsembleTitle(NamedTuple):
    """Names of an ensemble for readers: the paper's abbreviation, and the whole."""

    short: str
    long: str


ENSEMBLES = {
    "single": EnsembleTitle("single", "single network"),
    "batch": EnsembleTitle("BE", "BatchEnsemble"),
    "mc": EnsembleTitle("MC", "MC-dropout"),
    "deep": EnsembleTitle("DE", "deep ensemble"),
}
OPTIMISERS = ("sgd", "adamw")
SCHEDULES = ("steps", "one-cycle", "cosine")
NETWORK_OPTIONS = ("depth", "width", "hidden", "filterwise", "dropout", "mean", "std")
COMMON_OPTIONS = ("dropout", "mean", "std")  # of all our networks
OWN = ("network", "dataset", "mixing")  # fields that may name something of the user's own
SIZES = ("train_size", "test_size", "corruption_size")  # None means all
# Fields that came later: they are part of a run's name only where they have another value than this.
LATER: dict[str, Any] = {
    "optimiser": "sgd",
    "share": (),
    "standardise": False,
    "mix_after": "",
    "digests": {},
    "margin": 0.0,
    "momentum": 0.0,
    "mixing_epochs": None,
}
# The largest values that make sense, far above what anyone trains: a slip of the finger is refused at once.
LARGEST = {
    **{"members": 10_000, "validation_samples": 10_000, "epochs": 1_000_000, "batch_size": 10_000_000},
    **{"image_size": 10_000, "pad": 1_000, "shards": 100_000, "alpha": 1e6, "augmix_alpha": 1e6},
    **{"severity": 10, "consistency": 1e6, "learning_rate": 1e30, "weight_decay": 1e6, "init_std": 1e6},
    **{"warmup_epochs": 1e6, "decay_ratio": 1e6},
}


@dataclass(frozen=True)
class Recipe:
    """One run. Every field has a value: what is not given comes from the scale's preset.

    The scale itself is provenance: it neither names the run nor tells two recipes apart.
    """

    dataset: str = "digits"
    """Data set: one of `calmix.data.NAMES`, or one of your own: a .npz file, file.py:load, a folder of
    images."""
    scale: str = field(default="laptop", compare=False)
    """Preset that the recipe started from: paper, laptop or smoke."""
    seed: int = 0
    """Seed of every random draw of the run."""
    train_size: int | None = None
    """Training images used, drawn evenly over the classes; all that validation leaves by default."""
    validation_size: int = 2500
    """Images split off the training set, evenly over the classes, to choose the classes to mix and to
    calibrate."""
    train_on_validation: bool = False
    """Train on the validation images too, besides `train_size` others, as the paper did for methods that need
    none of their own."""
    test_size: int | None = None
    """Test images used; all by default."""
    corruption_size: int | None = None
    """Test images used under each corruption, drawn evenly over the classes; all by default."""
    image_size: int = 224
    """Side of the crops of an image folder; other data sets have their own."""

    network: str = "small_resnet"
    """Network: one of `calmix.models.NETWORKS`, or one of your own: file.py:make or package.module:make,
    called with shape=, num_classes= and the network's options."""
    network_options: dict[str, Any] = field(default_factory=dict, hash=False)
    """Keyword arguments of the network: width, depth, hidden, dropout, filterwise, mean, std."""

    ensemble: str = "single"
    """Ensemble: single, deep (independent networks), batch (BatchEnsemble), mc (MC-dropout)."""
    members: int = 1
    """Members of the ensemble; for mc the number of test-time samples."""
    init_std: float = 0.5
    """BatchEnsemble: spread of the members' initial weights around 1."""
    sign_probability: float | None = None
    """BatchEnsemble: start from random signs instead, +1 with this probability."""
    member_norm: bool = False
    """BatchEnsemble: a batch norm for each member."""
    validation_samples: int = 2
    """MC-dropout: samples by which CAMixup decides after every epoch; the authors' script took one."""

    pad: int = 4
    """Pixels of padding before a random crop; 0 crops nothing."""
    flip: bool = True
    """Flip half of the images left to right."""
    transform: str = "none"
    """Image transform: none or augmix."""
    severity: float = 3.0
    """AugMix: strength of its operations, 1 to 10."""
    augmix_alpha: float = 1.0
    """AugMix: the Dirichlet and Beta coefficient of its weights."""
    augmix_clean_first: bool = False
    """AugMix: member 0 sees the clean image and every other member a view of its own."""
    consistency: float = 0.0
    """Weight of the Jensen-Shannon term between the clean image and two AugMix views."""
    mixing: str = "none"
    """Mixing: one of `calmix.runs.augmentation.MIXINGS`, or file.py:make of your own, called with
    num_classes= and members=."""
    alpha: float = 1.0
    """Beta coefficient of the mixing weight lam."""
    gap_of: str = "member"
    """CAMixup: whose gap decides, each member's own or the pool's."""
    partner: str = "permutation"
    """Mixing partner: a random permutation of the batch, or the reversed batch."""
    fold: bool = False
    """Fold lam to max(lam, 1 - lam); CAMixup and forgetting always do."""
    forgetting_rule: str = "own"
    """Forgetting: an example's own count decides, or the count of the pair."""
    smoothing: float = 0.0
    """Label smoothing: mass that leaves the true class for the others."""
    by_group: bool = False
    """CAMixup: decide by the data set's groups (CIFAR-100's 20 coarse labels) instead of its classes."""
    margin: float = 0.0
    """CAMixup: mix a class only where its confidence exceeds its accuracy by more than this."""
    momentum: float = 0.0
    """CAMixup: weight of the earlier epochs' gaps, 0 to below 1."""
    mixing_epochs: int | None = None
    """Mix in the first so many epochs alone; in all by default."""

    epochs: int = 80
    """Passes over the training images."""
    batch_size: int = 128
    """Images in a step, over all processes."""
    learning_rate: float = 0.1
    """Peak learning rate for this batch size, of SGD with Nesterov momentum 0.9 or of AdamW."""
    weight_decay: float = 2e-4
    """Decay of kernels, final bias and shared norms: twice a Keras l2 coefficient."""
    schedule: str = "steps"
    """Learning rate: warm-up then steps, one-cycle for short runs, or warm-up then cosine."""
    warmup_epochs: float = 1.0
    """Epochs of linear warm-up from 0."""
    decay_epochs: tuple[int, ...] = ()
    """Epochs at which the rate is multiplied by decay_ratio."""
    decay_ratio: float = 0.2
    """Factor of each step of the schedule."""
    shards: int = 1
    """Pieces of a batch within which images are mixed: with several processes, their number."""
    precision: str = "32-true"
    """Lightning Fabric's name of a precision: 32-true, bf16-mixed, ..."""

    optimiser: str = "sgd"
    """Optimiser: sgd or adamw."""
    share: tuple[str, ...] = ()
    """BatchEnsemble: names of modules or parameters, with wildcards, that all members share."""
    standardise: bool = False
    """Subtract the mean of the training data and divide by the standard deviation, for each feature or
    channel, in a fixed first layer."""
    mix_after: str = ""
    """Mix the output of this module of the network instead of its input."""
    digests: dict[str, str] = field(default_factory=dict, hash=False)
    """SHA-256 digests of what is the user's own: the source of `network` and `mixing`, the content of
    `dataset`."""
    paths: dict[str, str] = field(default_factory=dict, compare=False)
    """Where those were found; not part of the run's name."""
    loader_digest: str = field(default="", compare=False)
    """Digest of the source that loads `dataset`, where it is code."""

    def __post_init__(self) -> None:
        # As JSON has them, so that a recipe equals the one that is read back, and has its name.
        try:
            object.__setattr__(self, "network_options", json.loads(json.dumps(self.network_options)))
        except (TypeError, ValueError):
            raise InputError(f"network_options must be plain values, got {self.network_options}") from None
        for name, value in typed_fields(self).items():
            if isinstance(value, float) and math.isinf(value):
                raise InputError(f"{name} must be finite, got {value}")
            object.__setattr__(self, name, value)
        if self.ensemble == "mc":  # MC-dropout has one network to judge
            object.__setattr__(self, "gap_of", "member")
        for name in self.digests:
            one_of("digest", name, ("dataset", "network", "mixing"))
        for name, valid in (("dataset", data.NAMES), ("network", NETWORKS)):
            if name not in self.digests:
                _known(name, getattr(self, name), valid)
        if is_code(self.mixing) and "mixing" not in self.digests:
            _known("mixing", self.mixing, ())
        one_of("ensemble", self.ensemble, ENSEMBLES)
        one_of("partner", self.partner, ("permutation", "reversed"))
        one_of("forgetting_rule", self.forgetting_rule, ("own", "pair"))
        one_of("schedule", self.schedule, SCHEDULES)
        one_of("optimiser", self.optimiser, OPTIMISERS)
        for name in (
            *("epochs", "batch_size", "members", "shards", "image_size"),
            *("validation_size", "validation_samples"),
        ):
            at_least(name, getattr(self, name), 1)
        for name in (*SIZES, "mixing_epochs"):
            if (size := getattr(self, name)) is not None:
                at_least(name, size, 1)
        for name in ("pad", "warmup_epochs", "consistency", "init_std", "weight_decay", "decay_ratio"):
            at_least(name, getattr(self, name), 0)
        for name in ("learning_rate", "alpha", "severity", "augmix_alpha"):
            above(name, getattr(self, name), 0)
        for name, high in LARGEST.items():
            at_most(name, getattr(self, name), high)
        for epoch in self.decay_epochs:
            at_least("decay_epochs", epoch, 1)
        for name in ("margin", "momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")
        if self.sign_probability is not None and not 0 <= self.sign_probability <= 1:
            raise InputError(f"sign_probability must lie in [0, 1], got {self.sign_probability}")
        self._check_combinations()

    def _check_combinations(self) -> None:
        augmentation = self.augmentation  # checks its own fields
        if self.share and self.ensemble != "batch":
            raise InputError(f"share is for ensemble 'batch', not for {self.ensemble!r}")
        own_network = is_code(self.network)
        if self.ensemble == "mc" and not own_network and not self.network_options.get("dropout"):
            raise InputError("ensemble 'mc' needs dropout above 0: without it all samples are alike")
        if self.ensemble == "single" and self.members != 1:
            raise InputError(
                f"ensemble 'single' has one member, got members={self.members}; did you mean 'deep'?"
            )
        if self.train_on_validation and augmentation.kind.chooses_by == "validation":
            raise InputError(
                f"train_on_validation: {self.mixing} needs validation images that it was not trained on"
            )
        for name in ("margin", "momentum"):
            if getattr(self, name) and not self.needs_validation:
                raise InputError(f"{name} is for CAMixup, not for mixing {self.mixing!r}")
        if self.mixing_epochs is not None and self.mixing == "none":
            raise InputError("mixing_epochs says how long to mix: choose a mixing")
        if self.consistency and self.transform != "augmix":
            raise InputError("consistency compares AugMix views: add augmix to augment")
        if self.batch_size % self.shards:
            raise InputError(f"batch_size {self.batch_size} does not divide into {self.shards} shards")

    @property
    def augmentation(self) -> Augmentation:
        return Augmentation(self.transform, self.mixing, self.gap_of, self.smoothing)

    @property
    def augment(self) -> str:
        """The augmentation in the command line's words."""
        return str(self.augmentation)

    @property
    def streams(self) -> int:
        """Independent trainings of the run: a deep ensemble has one for each member."""
        return self.members if self.ensemble == "deep" else 1

    @property
    def members_per_stream(self) -> int:
        """Members that see a batch of their own in a stream of training; MC-dropout's are of test time."""
        return self.members if self.ensemble == "batch" else 1

    @property
    def needs_validation(self) -> bool:
        """Whether validation data choose the classes to mix."""
        return self.augmentation.kind.chooses_by == "validation"

    @property
    def adaptive(self) -> bool:
        """Whether what is mixed changes from epoch to epoch."""
        return self.augmentation.kind.chooses_by is not None

    @property
    def couples_members(self) -> bool:
        """Whether the members of a deep ensemble wait for each other's validation logits."""
        return self.streams > 1 and self.needs_validation and self.gap_of == "pool"

    @property
    def rows_per_image(self) -> int:
        """Rows that an image has in a training step."""
        return self.augmentation.kind.rows_per_image

    @property
    def name(self) -> str:
        """The run folder's name: readable parts, then a hash of all that changes the numbers."""
        content = json.dumps(self._content(), sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()[:10]
        parts = "+".join(own.short(part) for part in self.augment.split("+"))
        return f"{own.short(self.dataset)}-{self.ensemble}-{parts}-seed{self.seed}-{digest}"

    def _content(self) -> dict[str, Any]:
        """All that changes the numbers; later fields only where they say something."""
        fields = self._compared()
        return {name: value for name, value in fields.items() if name not in LATER or value != LATER[name]}

    def _compared(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.compare}

    def code(self, name: str) -> Code:
        """The user's own `network` or `mixing`."""
        return Code(getattr(self, name), self.digests[name], self.paths.get(name, ""))

    def replace(self, **fields: Any) -> "Recipe":
        """The recipe with other values; `width` and other options of networks are set there.

        A network, data set or mixing of the user's own is given as `calmix.train` takes it.

        >>> Recipe().replace(width=8, epochs=3).network_options
        {'width': 8}
        """
        names = [f.name for f in dataclasses.fields(self)]
        for name in fields:
            one_of("recipe field", name, (*names, *NETWORK_OPTIONS))
        if "digests" in fields:  # what is the user's own is said with its digest
            options = self._kept_options(fields.get("network"))
            return dataclasses.replace(self, **gather_options(fields, options))
        given = {name: fields.pop(name) for name in OWN if name in fields}
        given = {name: value for name, value in given.items() if value != getattr(self, name)}
        return self.with_own(**given, **fields)

    def with_own(
        self, *, network: Any = None, dataset: Any = None, mixing: Any = None, **fields: Any
    ) -> "Recipe":
        """The recipe with a `network`, `dataset` or `mixing` that the user gives now, as `calmix.train` takes
        it: built in by its name, or the user's own, whose digest is computed again; and with other fields."""
        for name, value in (("network", network), ("dataset", dataset), ("mixing", mixing)):
            if value is None:
                continue
            found = own.dataset_fields(value)[1] if name == "dataset" else own.function_fields(name, value)
            for kind in ("digests", "paths"):
                fields[kind] = own.merge(fields.get(kind, getattr(self, kind)), found.pop(kind))
            fields |= found
        options = self._kept_options(fields.get("network"))
        return dataclasses.replace(self, **gather_options(fields, options))

    def _kept_options(self, network: str | None) -> dict[str, Any]:
        """Options that also hold for another network: of the built-in ones those that all have."""
        if network is None or network == self.network:
            return self.network_options
        kept = () if is_code(network) else COMMON_OPTIONS
        return {name: value for name, value in self.network_options.items() if name in kept}

    def flat(self) -> dict[str, Any]:
        """All that changes the numbers, the network's options and digests (shortened) among the fields."""
        fields = self._compared()
        options: dict[str, Any] = fields.pop("network_options")
        digests = {f"{name}_digest": text[:8] for name, text in fields.pop("digests").items()}
        return fields | options | digests

    def to_json(self) -> str:
        return to_json(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Recipe":
        """The recipe of a parsed file, also one that calmix 0.1 wrote; an unknown key is refused."""
        if "network_options" not in fields:
            fields = _from_first_edition(fields)
        return from_plain(cls, dict(fields), "recipe")


def _known(name: str, value: str, valid: Iterable[str]) -> None:
    """Refuse what is neither built in nor has a digest."""
    if is_code(value):
        raise InputError(
            f"{name} {value!r} is of your own, and the recipe has no digest of it: make the recipe with "
            f"preset(..., {name}=...) or replace({name}=...), which compute it"
        )
    one_of(name, value, valid)


def gather_options(fields: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Fields with those of the network collected in `network_options`, added to `options`."""
    rest = {name: value for name, value in fields.items() if name not in NETWORK_OPTIONS}
    named = {name: value for name, value in fields.items() if name in NETWORK_OPTIONS}
    if named or options is not None:
        rest["network_options"] = {**(options or {}), **rest.get("network_options", {}), **named}
    return rest


def _from_first_edition(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Recipes of calmix 0.1 said 0 or an empty list for what is now None or left out."""
    fields = dict(fields)
    if "filterwise_dropout" in fields:
        fields["filterwise"] = fields.pop("filterwise_dropout")
    if fields.get("network") != "wide_resnet":
        fields.pop("depth", None)
    if fields.get("network") in ("mlp", "resnet50") and "width" in fields:
        width = fields.pop("width")
        if fields["network"] == "mlp":
            fields["hidden"] = width
    for name in (*SIZES, "sign_probability"):
        fields[name] = fields.get(name) or None
    unset = [name for name in NETWORK_OPTIONS if name in fields and not fields[name]]
    return gather_options({name: value for name, value in fields.items() if name not in unset}, {})
