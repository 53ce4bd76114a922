"""What one run is: a frozen record, complete enough to make the run again anywhere."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from calmix import data
from calmix.errors import InputError, at_least, flag, one_of

ENSEMBLES = ("single", "deep", "batch", "mc")
NETWORKS = ("small_resnet", "wide_resnet", "resnet50", "mlp")
TRANSFORMS = ("none", "augmix")
MIXINGS = ("none", "mixup", "cutmix", "regmixup", "mixupmp", "camixup", "cutmix-camixup", "forgetting")
SCHEDULES = ("steps", "one-cycle")
SMOOTHING = 0.1  # what label-smoothing means where no amount is said
PAPER_NAMES = {"augmixup": "augmix+mixup", "augcamixup": "augmix+camixup"}


@dataclass(frozen=True)
class Recipe:
    """One run. Every field has a value: what is not said on the command line comes from the scale's
    preset."""

    dataset: str = "digits"
    """Data set: digits, clusters, cifar10, cifar100, fashion-mnist, mnist, folder."""
    scale: str = "laptop"
    """Which preset the recipe started from: paper, laptop or smoke."""
    seed: int = 0
    """Every random draw of the run is derived from it."""
    train_size: int = 0
    """Training images used, drawn evenly over the classes; 0 means all that validation leaves."""
    validation_size: int = 2500
    """Images split off the training set, evenly over the classes, to decide who is mixed and to calibrate."""
    train_on_validation: bool = False
    """Train on the validation images too, as the paper did for methods that need none of their own."""
    test_size: int = 0
    """Test images used; 0 means all."""
    corruption_size: int = 0
    """Test images used under each corruption, drawn evenly over the classes; 0 means all."""
    image_size: int = 224
    """Side of the crops of an image folder; other data sets have their own."""

    network: str = "small_resnet"
    """Network: small_resnet, wide_resnet, resnet50, mlp."""
    depth: int = 28
    """Layers of a wide_resnet."""
    width: int = 16
    """Channels of small_resnet's first stage, widening factor of wide_resnet, hidden units of mlp."""
    dropout: float = 0.0
    """Probability of dropping an activation, in every residual block or hidden layer."""
    filterwise_dropout: bool = False
    """Drop whole filters before every convolution of a wide_resnet instead of single activations."""

    ensemble: str = "single"
    """Ensemble: single, deep (independent networks), batch (BatchEnsemble), mc (MC-dropout)."""
    members: int = 1
    """Members of the ensemble; for mc the number of test-time samples."""
    init_std: float = 0.5
    """BatchEnsemble: spread of the members' initial weights around 1."""
    sign_probability: float = 0.0
    """BatchEnsemble: start from random signs with this probability of +1 instead; 0 means do not."""
    member_norm: bool = False
    """BatchEnsemble: a batch norm for each member."""

    pad: int = 4
    """Pixels of padding before a random crop; 0 means no crop."""
    flip: bool = True
    """Flip half of the images left to right."""
    transform: str = "none"
    """Image transform: none or augmix."""
    severity: float = 3.0
    """AugMix: how strong its operations are, 1 to 10."""
    augmix_alpha: float = 1.0
    """AugMix: the Dirichlet and Beta coefficient of its weights."""
    augmix_clean_first: bool = False
    """AugMix: member 0 sees the clean image and every other member a view of its own."""
    consistency: float = 0.0
    """Weight of the Jensen-Shannon term between the clean image and two AugMix views; 0 means none."""
    mixing: str = "none"
    """Mixing: none, mixup, cutmix, regmixup, mixupmp, camixup, cutmix-camixup, forgetting."""
    alpha: float = 1.0
    """The Beta coefficient of the mixing weight."""
    gap_of: str = "member"
    """CAMixup: whose over-confidence decides, each member's own or the pool's."""
    partner: str = "permutation"
    """Mixing partner: a random permutation of the batch, or the reversed batch."""
    fold: bool = False
    """Fold the mixing weight to max(lam, 1 - lam); CAMixup and forgetting always do."""
    forgetting_rule: str = "own"
    """Forgetting: an example's own count decides, or the count of the pair."""
    smoothing: float = 0.0
    """Label smoothing: mass that leaves the true class for the others."""
    by_group: bool = False
    """CAMixup: decide by the data set's groups (CIFAR-100's 20 coarse labels) instead of its classes."""

    epochs: int = 80
    """Passes over the training images."""
    batch_size: int = 128
    """Images in a step, over all processes."""
    learning_rate: float = 0.1
    """Peak learning rate of SGD with Nesterov momentum 0.9, for this batch size."""
    weight_decay: float = 2e-4
    """Decay of kernels, final bias and shared norms: twice a Keras l2 coefficient."""
    schedule: str = "steps"
    """Learning rate: warm-up then steps, or one-cycle for short runs."""
    warmup_epochs: float = 1.0
    """Epochs of linear warm-up from 0."""
    decay_epochs: tuple[int, ...] = ()
    """Epochs at which the rate is multiplied by decay_ratio."""
    decay_ratio: float = 0.2
    """What a step multiplies the rate by."""
    shards: int = 1
    """Pieces of a batch within which images are mixed: with several processes, their number."""
    mean: tuple[float, ...] = ()
    """Mean of each channel, subtracted inside the network; empty means 0."""
    std: tuple[float, ...] = ()
    """Spread of each channel, divided by inside the network; empty means 1."""

    def __post_init__(self) -> None:
        one_of("dataset", self.dataset, data.NAMES)
        one_of("network", self.network, NETWORKS)
        one_of("ensemble", self.ensemble, ENSEMBLES)
        one_of("transform", self.transform, TRANSFORMS)
        one_of("mixing", self.mixing, MIXINGS)
        one_of("gap-of", self.gap_of, ("member", "pool"))
        one_of("partner", self.partner, ("permutation", "reversed"))
        one_of("forgetting-rule", self.forgetting_rule, ("own", "pair"))
        one_of("schedule", self.schedule, SCHEDULES)
        for name in ("epochs", "batch_size", "members", "width", "shards", "image_size", "validation_size"):
            at_least(name, getattr(self, name), 1)
        for name in (
            "train_size",
            "test_size",
            "corruption_size",
            "pad",
            "warmup_epochs",
            "consistency",
            "init_std",
            "weight_decay",
            "decay_ratio",
        ):
            at_least(name, getattr(self, name), 0)
        for name in ("learning_rate", "alpha", "severity", "augmix_alpha"):
            if not getattr(self, name) > 0:
                raise InputError(f"--{flag(name)} must be above 0, got {getattr(self, name)}")
        for name in ("dropout", "smoothing", "sign_probability"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"--{flag(name)} must be at least 0 and below 1, got {getattr(self, name)}")
        for epoch in self.decay_epochs:
            at_least("decay_epochs", epoch, 1)
        if self.ensemble == "mc" and self.dropout == 0:
            raise InputError("--ensemble mc needs --dropout above 0: without it all samples are alike")
        if self.ensemble == "single" and self.members != 1:
            raise InputError(
                f"--ensemble single has one member, got --members {self.members}; did you mean deep?"
            )
        if self.train_on_validation and "camixup" in self.mixing:
            raise InputError(
                f"--train-on-validation: {self.mixing} needs validation images that it has not seen"
            )
        if self.filterwise_dropout and self.network != "wide_resnet":
            raise InputError(f"--filterwise-dropout is for wide_resnet, not for {self.network}")
        if self.consistency and self.transform != "augmix":
            raise InputError("--consistency compares AugMix views: add augmix to --augment")
        if self.batch_size % self.shards:
            raise InputError(
                f"--batch-size {self.batch_size} does not divide into --shards {self.shards} pieces"
            )

    @property
    def augment(self) -> str:
        """The augmentation in words: parts joined with `+`, or `none`."""
        smoothing = f"label-smoothing-{self.smoothing:g}" if self.smoothing else "none"
        pool = (
            "-by-pool" if "camixup" in self.mixing and self.gap_of == "pool" and self.ensemble != "mc" else ""
        )
        parts = [self.transform, self.mixing + pool, smoothing]
        return "+".join(part for part in parts if part != "none") or "none"

    @property
    def name(self) -> str:
        """The run folder's name: readable parts, then a hash of the whole content."""
        digest = hashlib.sha256(self.to_json().encode()).hexdigest()[:10]
        return f"{self.dataset}-{self.ensemble}-{self.augment}-seed{self.seed}-{digest}"

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Recipe":
        """The recipe of a parsed file; a key that is no field is refused with the nearest one that is."""
        kinds: dict[str, Any] = {field.name: field.type for field in dataclasses.fields(cls)}
        for key in fields:
            one_of("recipe key", key, sorted(kinds))
        return cls(**{key: _typed(key, value, kinds[key]) for key, value in fields.items()})


def _typed(name: str, value: Any, kind: Any) -> Any:
    """A JSON value as its field holds it: a whole number may stand for any, and a list for a tuple."""
    if kind is float and type(value) is int:
        return float(value)
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_typed(name, item, get_args(kind)[0]) for item in value)
    if type(value) is not kind:
        words = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
        raise InputError(f"recipe key {name!r} must be {words.get(kind, 'a list of numbers')}, got {value!r}")
    return value


def parse_augment(text: str) -> dict[str, Any]:
    """The fields that an augmentation in words stands for.

    >>> parse_augment("augmix+camixup")
    {'transform': 'augmix', 'mixing': 'camixup', 'smoothing': 0.0}
    """
    fields: dict[str, Any] = {"transform": "none", "mixing": "none", "smoothing": 0.0}
    parts = PAPER_NAMES.get(text, text).split("+")
    said: set[str] = set()
    value: str | float
    for part in parts:
        if part == "none" and len(parts) == 1:
            continue
        if part == "label-smoothing":
            field, value = "smoothing", SMOOTHING
        elif part in TRANSFORMS[1:]:
            field, value = "transform", part
        else:
            words = (*TRANSFORMS[1:], *MIXINGS[1:], "label-smoothing", "none", *PAPER_NAMES)
            one_of("augment", part, words)
            if part not in MIXINGS[1:]:
                raise InputError(f"--augment {text}: {part!r} stands alone, it cannot be joined with others")
            field, value = "mixing", part
        if field in said:
            raise InputError(f"--augment {text}: names two parts that are both a {field}; choose one")
        said.add(field)
        fields[field] = value
    return fields
