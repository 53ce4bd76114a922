"""Remedies: a temperature, with the error it leaves on held-out data; CAMixup, where it applies."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calmix.auditing.verdict import Verdict
from calmix.calibrate import fit_temperature
from calmix.metrics import Interval
from calmix.seeds import generator

FOLDS = 5
VALUES, ROWS = 5_000_000, 5_000  # a fit takes at most so many logits, or so many examples if that is more


@dataclass(frozen=True)
class TemperatureAdvice:
    """Temperatures fitted on all examples, and the ECE they leave on examples they have not seen."""

    pool: float
    member: float
    ece_after_pool: Interval
    ece_after_member: Interval
    notes: tuple[str, ...]

    def text(self, ece: Interval) -> str:
        """What to do about an ECE of today."""
        pool, member = (self.pool, self.ece_after_pool), (self.member, self.ece_after_member)
        when, (temperature, after) = "", pool
        if pool != member:  # one member has a single temperature, and no pooling to come before or after
            when = " before pooling" if member[1].value < after.value else " after pooling"
            temperature, after = min(pool, member, key=lambda order: order[1].value)
        text = (
            f"A temperature of {temperature:.3g}{when} would bring the ECE from {100 * ece.value:.1f} % to "
            f"{100 * after.value:.1f} % (interval {100 * after.low:.1f} to {100 * after.high:.1f}, "
            "cross-validated)."
        )
        return text if after.high < ece.value else f"{text} That is no clear gain: leave it as it is."


def advise_temperature(
    logits: Tensor, labels: Tensor, *, ece: Callable[[Tensor], Interval], seed: int = 0
) -> TemperatureAdvice:
    """Fit both orders; `ece` gives the error of probabilities (N, C) of the same examples."""
    after_pool, held_out, notes = cross_validate(logits, labels, order="pool", seed=seed)
    ece_after_pool = ece(held_out)
    if len(logits) == 1:  # pooling one member changes nothing, before or after
        return TemperatureAdvice(after_pool, after_pool, ece_after_pool, ece_after_pool, notes)
    before_pool, held_out, more = cross_validate(logits, labels, order="member", seed=seed)
    notes = tuple(dict.fromkeys(notes + more))
    return TemperatureAdvice(after_pool, before_pool, ece_after_pool, ece(held_out), notes)


def cross_validate(
    logits: Tensor, labels: Tensor, *, order: Literal["pool", "member"], seed: int = 0
) -> tuple[float, Tensor, tuple[str, ...]]:
    """The temperature of all examples; probabilities (N, C) by temperatures that have not seen them; notes.

    5 folds, random and seeded, not stratified. Where examples are many, each fit takes a random part of those
    it may see: one number needs no more.
    """
    members, examples, classes = logits.shape
    most = max(ROWS, VALUES // (members * classes))
    shuffled = torch.randperm(examples, generator=generator(seed, "audit", "folds"))
    fold = torch.arange(examples) % min(FOLDS, examples)
    held_out = torch.empty(examples, classes, dtype=logits.dtype)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole = fit_temperature(logits[:, shuffled[:most]], labels[shuffled[:most]], order=order)
        notes = [f"Temperature, order {order}: {warning.message}." for warning in caught]
        for k in range(min(FOLDS, examples)):
            seen, unseen = shuffled[fold != k][:most], shuffled[fold == k]
            fitted = fit_temperature(logits[:, seen], labels[seen], order=order)
            held_out[unseen] = torch.as_tensor(fitted.apply(logits[:, unseen]))
    if most < examples:
        notes.append(f"Temperatures are fitted on {most:,} examples drawn at random.")
    return float(whole.temperature), held_out, tuple(notes)


@dataclass(frozen=True)
class CAMixupAdvice:
    """Whether training with CAMixup is a remedy, and how many classes its rule would mix."""

    applies: bool
    gap_of: str
    mixed_by_pool: int
    mixed_by_members: float
    text: str


def advise_camixup(verdict: Verdict, pool_gaps: Tensor, member_gaps: Tensor) -> CAMixupAdvice:
    """From the classes' gaps, (C,) of the pool and (M, C) of the members: CAMixup mixes those not above 0."""
    by_pool = int((pool_gaps <= 0).sum())
    by_members = float((member_gaps <= 0).sum(1).double().mean())
    classes = int((~pool_gaps.isnan()).sum())
    texts = {
        "calibrated": "CAMixup has nothing to improve.",
        "over-confident": (
            "CAMixup applies: in the next training it would mix the classes on which the ensemble is "
            f"over-confident ({by_pool} of {classes} here) and leave the others alone. If that is nearly all "
            "of them, plain Mixup does much the same."
        ),
        "under-confident": (
            "If it was trained with Mixup or label smoothing, CAMixup applies: it would mix only "
            f"{by_pool} of {classes} classes. If not, mixing is not the cause: take a temperature."
        ),
        "under-confident by pooling": (
            "CAMixup as in the paper judges each member alone and would mix about "
            f"{by_members:.0f} of {classes} classes, which makes the pool less sure still. Let the pool "
            f"decide (gap_of='pool', {by_pool} of {classes}), or calibrate after pooling."
        ),
        "compounding under-confidence": (
            "CAMixup applies, this is what it is for: in place of Mixup or label smoothing of all classes it "
            "would mix only the classes on which a member is over-confident, here about "
            f"{by_members:.0f} of {classes}."
        ),
    }
    gap_of = "pool" if verdict == "under-confident by pooling" else "member"
    return CAMixupAdvice(verdict != "calibrated", gap_of, by_pool, by_members, texts[verdict])
