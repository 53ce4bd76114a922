"""Augmentation of a run as one record with one grammar: `augmix+camixup-by-pool+label-smoothing-0.2`."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calmix import augment
from calmix.errors import InputError, one_of
from calmix.runs.code import is_code


@dataclass(frozen=True)
class Mixing:
    """A mixing as recipes name it; an adaptive one chooses what is mixed by validation data, or by what
    training forgets.

    `mixer` makes it, where it needs no more than alpha, partner and fold; with `draws_per_member` the members
    of a BatchEnsemble have draws of their own.
    """

    title: str
    mixer: Callable[..., augment.Mixer] | None = None
    chooses_by: str | None = None
    rows_per_image: int = 1
    draws_per_member: bool = False


MIXINGS = {
    "none": Mixing("none"),
    "mixup": Mixing("Mixup", augment.Mixup),
    "cutmix": Mixing("CutMix", augment.CutMix),
    "regmixup": Mixing("RegMixup", augment.RegMixup, rows_per_image=2),
    "mixupmp": Mixing("MixupMP", augment.MixupMP, rows_per_image=2, draws_per_member=True),
    "camixup": Mixing("CAMixup", chooses_by="validation"),
    "cutmix-camixup": Mixing("adaptive CutMix", chooses_by="validation"),
    "forgetting": Mixing("forgetting CAMixup", chooses_by="training"),
}
TRANSFORMS = ("none", "augmix")
SMOOTHING = 0.1  # the amount of `label-smoothing` without a number
BY_POOL, LABEL_SMOOTHING = "-by-pool", "label-smoothing"
PAPER_NAMES = {"augmixup": "augmix+mixup", "augcamixup": "augmix+camixup"}
PAPER_TITLES = {"augmix+mixup": "AugMixup", "augmix+camixup": "AugCAMixup"}


@dataclass(frozen=True)
class Augmentation:
    """An image transform, a mixing of pairs, and a smoothing of labels.

    `str` writes it and `parse_augmentation` reads it back.

    >>> str(Augmentation(transform="augmix", mixing="camixup", gap_of="pool"))
    'augmix+camixup-by-pool'
    """

    transform: str = "none"
    mixing: str = "none"
    gap_of: str = "member"
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        one_of("transform", self.transform, TRANSFORMS)
        if not is_code(self.mixing):
            one_of("mixing", self.mixing, MIXINGS)
        one_of("gap_of", self.gap_of, ("member", "pool"))
        if not 0 <= self.smoothing < 1:
            raise InputError(f"smoothing must be at least 0 and below 1, got {self.smoothing}")
        if self.gap_of == "pool" and (is_code(self.mixing) or self.kind.chooses_by != "validation"):
            raise InputError(f"gap_of='pool' is for CAMixup, not for {self.mixing}")

    @property
    def kind(self) -> Mixing:
        """How it mixes; one of the user's own sees validation data every epoch, and may choose by them."""
        if is_code(self.mixing):
            return Mixing(self.mixing.rpartition(":")[2], chooses_by="validation")
        return MIXINGS[self.mixing]

    def __str__(self) -> str:
        parts = [
            self.transform,
            self.mixing + BY_POOL * (self.gap_of == "pool"),
            f"{LABEL_SMOOTHING}-{self.smoothing}" if self.smoothing else "none",
        ]
        return "+".join(part for part in parts if part != "none") or "none"

    @property
    def title(self) -> str:
        """Its name in tables and figures.

        >>> parse_augmentation("augcamixup").title, Augmentation(mixing="camixup", gap_of="pool").title
        ('AugCAMixup', 'CAMixup by pool')
        """
        parts = [
            "AugMix" if self.transform == "augmix" else "none",
            self.kind.title + " by pool" * (self.gap_of == "pool"),
            f"label smoothing {self.smoothing:g}" if self.smoothing else "none",
        ]
        joined = " + ".join(part for part in parts if part != "none") or "none"
        return PAPER_TITLES.get(str(self), joined)


def parse_augmentation(text: str) -> Augmentation:
    """Parts joined with `+`, in any order, each kind at most once; or `none`, or one of the paper's names.

    `file.py:make_mixer` is a mixing of the user's own.

    >>> parse_augmentation("augmix+label-smoothing")
    Augmentation(transform='augmix', mixing='none', gap_of='member', smoothing=0.1)
    """
    parts = PAPER_NAMES.get(text, text).split("+")
    fields: dict[str, Any] = {}
    for part in parts:
        if part == "none" and len(parts) == 1:
            continue
        for name, value in _fields(text, part).items():
            if name in fields:
                raise InputError(f"augment {text!r} names two parts that are both a {name}; choose one")
            fields[name] = value
    return Augmentation(**fields)


def _fields(text: str, part: str) -> dict[str, Any]:
    if part in TRANSFORMS[1:]:
        return {"transform": part}
    if is_code(part):
        return {"mixing": part}
    if part.split("-")[0] == "label" and part.startswith(LABEL_SMOOTHING):
        suffix = part.removeprefix(LABEL_SMOOTHING) or f"-{SMOOTHING}"
        amount = math.nan
        with contextlib.suppress(ValueError):
            amount = float(suffix.removeprefix("-")) if suffix.startswith("-") else math.nan
        if not 0 < amount < 1:
            raise InputError(f"augment {text!r}: write the amount of smoothing as label-smoothing-0.2")
        return {"smoothing": amount}
    mixing = part.removesuffix(BY_POOL)
    names = (*TRANSFORMS[1:], *list(MIXINGS)[1:], LABEL_SMOOTHING, "none", *PAPER_NAMES)
    one_of("augment", mixing, names)
    if mixing not in list(MIXINGS)[1:]:
        raise InputError(f"augment {text!r}: {part!r} stands alone, it cannot be joined with other parts")
    return {"mixing": mixing} | ({"gap_of": "pool"} if mixing != part else {})
