"""The paper's claims, each a rule of a few lines that reads like its sentence."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from calmix.errors import InputError
from calmix.metrics import Interval
from calmix.paper.judging import Claim, ClaimResult, Judge, Outcome, Part, Side, Size
from calmix.paper.mixed_classes import rank_correlation
from calmix.paper.numbers import published_number
from calmix.paper.regime import Regime, main_regimes
from calmix.paper.toy import CONFIDENT, surface
from calmix.runs.augmentation import parse_augmentation
from calmix.study import quantities as q
from calmix.study.estimates import LEVEL, Estimate, NotRunError, SeedVariance
from calmix.study.results import Result

VERSION = 2
TOY, IMAGENET = "clusters", "folder"
BE, DE, BE_DE = ("batch",), ("deep",), ("batch", "deep")


@Claim("0a", ("single",))
def mixup_calibrates_one_network(j: Judge) -> Iterator[Outcome]:
    """Mixup makes a single network better calibrated"""
    yield j.compare(q.ECE, "mixup", "none", "below")


@Claim("0b", BE)
def camixup_beats_plain(j: Judge) -> Iterator[Outcome]:
    """CAMixup BE has a lower ECE than plain BE"""
    yield j.compare(q.ECE, "camixup", "none", "below")
    yield from j.ratio(q.ECE, "camixup", "none")


@Claim("1")
def mixup_raises_accuracy(j: Judge) -> Iterator[Outcome]:
    """Mixup raises accuracy"""
    yield j.compare(q.ACCURACY, "mixup", "none", "above")


@Claim("2")
def mixup_worsens_ece(j: Judge) -> Iterator[Outcome]:
    """Mixup worsens the pool's ECE"""
    yield j.compare(q.ECE, "mixup", "none", "above")
    yield from j.ratio(q.ECE, "mixup", "none")


@Claim("3", short="Under-confidence of the members compounds in the pool")
def underconfidence_compounds(j: Judge) -> Iterator[Outcome]:
    """Under-confidence compounds: with Mixup, members are under-confident, and the pool's ECE is above its
    members' mean"""
    yield j.level(q.MEMBER_GAP, "mixup", "above")
    yield j.level(q.COMPOUNDING, "mixup", "above")


@Claim("4")
def smoothing_worsens_ece(j: Judge) -> Iterator[Outcome]:
    """Label smoothing of 0.2 or more worsens the pool's ECE"""
    for amount in ("0.2", "0.3", "0.5"):
        yield j.compare(q.ECE, f"label-smoothing-{amount}", "none", "above")


@Claim("5")
def camixup_is_below_mixup(j: Judge) -> Iterator[Outcome]:
    """CAMixup's ECE is below Mixup's"""
    yield j.compare(q.ECE, "camixup", "mixup", "below")
    yield from j.ratio(q.ECE, "camixup", "mixup")


@Claim("6", short="CAMixup keeps the accuracy gained by Mixup")
def camixup_keeps_accuracy(j: Judge) -> Iterator[Outcome]:
    """CAMixup is more accurate than none, and at most 0.22 points less accurate than Mixup"""
    yield j.compare(q.ACCURACY, "camixup", "none", "above")
    yield j.compare(q.ACCURACY, "camixup", "mixup", "above", margin=0.0022)  # the paper's own loss


@Claim("7", BE)
def camixup_mixes_hard_classes(j: Judge) -> Iterator[Outcome]:
    """CAMixup mixes hard classes more often than easy ones"""
    results = [r for r in j.regime[j.ensemble, "camixup"] if not r.recipe.by_group]
    pairs = [(r.mixed, r.class_accuracy) for r in results]
    known = [(mixed, accuracy) for mixed, accuracy in pairs if mixed is not None and accuracy is not None]
    name = "rank correlation of a class's mixed share with its test accuracy"
    if not known:
        yield j.not_run(name, "a run whose epochs say which classes were mixed")
        return
    yield j.judge(name, _rank_correlation(known), len(known), "below", unit="rank correlation")
    for text, paper, place in (("hardest", 0.8, slice(None, None)), ("easiest", 0.1, slice(None, None, -1))):
        shares = []
        for mixed, accuracy in known:
            (present,) = np.isfinite(accuracy).nonzero()
            order = present[accuracy[present].argsort()][place][: max(1, len(present) // 5)]
            shares.append(mixed[:, order].mean())
        share = float(np.mean(shares))
        name = f"mixed share of the {text} fifth of the classes"
        yield Size(j.ensemble, j.regime.dataset, name, share, paper)


def _rank_correlation(known: Sequence[tuple[Any, Any]]) -> Interval:
    """Mean over seeds with its interval; of one seed Fisher's, of a rank correlation of so many classes."""
    values = [rank_correlation(mixed, accuracy) for mixed, accuracy in known]
    mean, free = float(np.mean(values)), min(int(np.isfinite(accuracy).sum()) for _, accuracy in known) - 3
    if len(values) > 1:
        half = _mean(values).half_width
        return Interval(mean, max(-1.0, mean - half), min(1.0, mean + half))
    if free < 1:
        return Interval(mean, -1.0, 1.0)
    middle = np.arctanh(np.clip(mean, -1 + 1e-12, 1 - 1e-12))
    half = ndtri((1 + LEVEL) / 2) * math.sqrt(1.06 / free)
    return Interval(mean, float(np.tanh(middle - half)), float(np.tanh(middle + half)))


def _mean(values: Sequence[float]) -> Estimate:
    """Over seeds; of one alone, with no interval."""
    variance, count = SeedVariance.pooled([values]), len(values)
    return Estimate(float(np.mean(values)), count, variance.variance / count, variance.degrees)


@Claim("8", BE_DE, short="Corrupted: Mixup raises accuracy, not ECE")
def mixup_helps_under_corruption(j: Judge) -> Iterator[Outcome]:
    """Under corruption Mixup raises accuracy, and does not worsen ECE"""
    yield j.compare(q.CORRUPTED_ACCURACY, "mixup", "none", "above", condition="corrupted")
    yield j.compare(q.CORRUPTED_ECE, "mixup", "none", "below", condition="corrupted")


@Claim("9", BE_DE, short="Corrupted: CAMixup's ECE is that of Mixup or lower")
def camixup_is_on_par_under_corruption(j: Judge) -> Iterator[Outcome]:
    """Under corruption CAMixup's ECE is not above Mixup's by more than 0.4 points"""
    yield j.compare(q.CORRUPTED_ECE, "camixup", "mixup", "below", margin=0.004, condition="corrupted")


@Claim("10", BE_DE)
def augmix_is_not_underconfident(j: Judge) -> Iterator[Outcome]:
    """AugMix does not make an ensemble under-confident"""

    def change() -> Estimate:
        plain = j.regime.estimate((j.ensemble, "none"), q.GAP)
        augmix = j.regime.estimate((j.ensemble, "augmix"), q.GAP)
        return augmix - plain if plain.value > 0 else augmix

    yield j.part("gap with AugMix, minus the gap without it where that is above 0", change, "below")


@Claim("11", BE_DE, short="AugMixup raises accuracy and ECE of AugMix")
def augmixup_trades_ece_for_accuracy(j: Judge) -> Iterator[Outcome]:
    """AugMixup raises accuracy over AugMix, and worsens clean ECE"""
    yield j.compare(q.ACCURACY, "augmix+mixup", "augmix", "above")
    yield j.compare(q.ECE, "augmix+mixup", "augmix", "above")


@Claim("12", BE, short="AugCAMixup has the best ECE, accuracy as AugMixup")
def augcamixup_is_best(j: Judge) -> Iterator[Outcome]:
    """AugCAMixup has the best ECE of the three, clean and corrupted; its accuracy is on par with AugMixup's;
    BE with it reaches DE with AugMix"""
    for other in ("augmix", "augmix+mixup"):
        yield j.compare(q.ECE, "augmix+camixup", other, "below")
        yield j.compare(q.CORRUPTED_ECE, "augmix+camixup", other, "below", condition="corrupted")
    yield j.compare(q.ACCURACY, "augmix+camixup", "augmix+mixup", "above", margin=0.0005)
    yield j.compare(q.ECE, "augmix+camixup", ("deep", "augmix"), "below")


@Claim("13", BE, short="A temperature helps CAMixup clean, not corrupted")
def temperature_helps_clean_alone(j: Judge) -> Iterator[Outcome]:
    """A temperature on top of CAMixup lowers clean ECE, and not corrupted ECE"""
    yield j.level(q.SCALING_CHANGE, "camixup", "below")
    yield j.level(q.CORRUPTED_SCALING_CHANGE, "camixup", "above", condition="corrupted")


@Claim("14", ("batch", "mc"), except_on=("cifar100",))
def forgetting_beats_classes(j: Judge) -> Iterator[Outcome]:
    """Forgetting counts beat classes on most metrics"""
    parts = [
        j.compare(q.ACCURACY, "forgetting", "camixup", "above"),
        j.compare(q.CORRUPTED_ACCURACY, "forgetting", "camixup", "above"),
        j.compare(q.CORRUPTED_ECE, "forgetting", "camixup", "below"),
    ]
    if j.ensemble != "mc":  # of MC-dropout's clean ECE the paper says the opposite
        parts.append(j.compare(q.ECE, "forgetting", "camixup", "below"))
    words = [part.verdict for part in parts]
    name = f"share of {len(parts)} metrics won by forgetting counts (surely to perhaps), less a half"
    if j.ensemble == "mc":
        name += "; clean ECE left out, as the paper reports the opposite"
    if "not run" in words:
        yield j.not_run(name, "forgetting and class-based CAMixup, clean and corrupted")
        return
    won = [words.count("shown"), words.count("consistent"), words.count("undecided")]
    low, value, high = (share / len(parts) - 0.5 for share in (won[0], sum(won[:2]), sum(won)))
    seeds, interval = min(part.seeds for part in parts), Interval(value, low, high)
    part = j.judge(name, interval, seeds, "above", condition="clean and corrupted", unit="share")
    # Half of them is not most.
    yield replace(part, verdict="undecided") if part.verdict == "consistent" and value == 0 else part


@Claim("15", BE_DE, short="SKCE and DCE give the same order as ECE")
def other_metrics_order_alike(j: Judge) -> Iterator[Outcome]:
    """SKCE and DCE order none, Mixup and CAMixup as ECE does on clean data"""
    # Where ECE itself is not sure of the order, the others can neither show nor contradict it.
    for this, that in (("mixup", "none"), ("mixup", "camixup"), ("camixup", "none")):
        for quantity in (q.DCE, q.SKCE):
            ece = j.compare(q.ECE, this, that, "above")
            sign = -1 if (ece.estimate or 0) < 0 else 1
            part = j.compare(quantity, this, that, "above" if sign > 0 else "below")
            weaker = {"shown": "consistent", "contradicted": "undecided"}
            if ece.verdict not in ("shown", "contradicted"):
                part = replace(part, verdict=weaker.get(part.verdict, part.verdict))
            yield part


@Claim("16", DE, dataset=TOY, short="Toy: Mixup is not confident inside the ring")
def mixup_is_not_confident_inside(j: Judge) -> Iterator[Outcome]:
    """Toy: inside the ring of clusters the deep ensemble is confident, the Mixup ensemble is not; close to a
    cluster both are"""
    # On the toy: shares of points with a confidence above 0.9, against a half.
    expected: tuple[tuple[str, str, str, Side], ...] = (
        ("none", "inside the ring", "inside", "above"),
        ("mixup", "inside the ring", "inside", "below"),
        ("none", "close to a cluster", "near", "above"),
        ("mixup", "close to a cluster", "near", "above"),
    )
    for augment, where, kind, side in expected:

        def share(augment: str = augment, kind: str = kind) -> Estimate:
            try:
                surfaces = [surface(result.run) for result in j.regime[j.ensemble, augment]]
            except InputError as error:
                raise NotRunError(str(error)) from None
            points = [each.confidence[getattr(each, kind)] for each in surfaces]
            values = [float((some > CONFIDENT).float().mean()) - 0.5 for some in points]
            return _mean(values)

        name = f"share of points {where} with a confidence above 0.9, less a half"
        yield j.part(f"{name}: {parse_augmentation(augment).title}", share, side)


@Claim("17", DE, short="CAMixup helps DE less; AugMix is DE's best")
def camixup_helps_deep_less(j: Judge) -> Iterator[Outcome]:
    """CAMixup helps DE less than BE; on CIFAR-10 AugMix is DE's best calibrated, clean and corrupted"""

    def log_ratio(ensemble: str) -> Estimate:
        camixup, mixup = (j.regime.estimate((ensemble, a), q.ECE).log() for a in ("camixup", "mixup"))
        return camixup - mixup

    key = j.regime.dataset
    paper = [published_number("ece", (key, e, a)) for e in ("deep", "batch") for a in ("camixup", "mixup")]
    published = None
    if all(paper):
        deep, deep_mixup, batch, batch_mixup = (number[0] for number in paper if number)
        published = math.log(deep / deep_mixup) - math.log(batch / batch_mixup)
    name = "log of CAMixup's ECE over Mixup's: DE - BE"

    def difference() -> Estimate:
        return log_ratio("deep") - log_ratio("batch")

    yield j.part(name, difference, "above", paper=published, unit="log ratio")
    if j.regime.dataset == "cifar10":
        for other in ("none", "mixup", "camixup", "augmix+mixup", "augmix+camixup"):
            yield j.compare(q.ECE, "augmix", other, "below")
            yield j.compare(q.CORRUPTED_ECE, "augmix", other, "below", condition="corrupted")


@Claim("18", BE, dataset=IMAGENET)
def camixup_is_best(j: Judge) -> Iterator[Outcome]:
    """ImageNet: CAMixup BE has the best ECE of the three"""
    for other in ("none", "mixup"):
        yield j.compare(q.ECE, "camixup", other, "below")


CLAIMS = (
    *(mixup_calibrates_one_network, camixup_beats_plain, mixup_raises_accuracy, mixup_worsens_ece),
    *(underconfidence_compounds, smoothing_worsens_ece, camixup_is_below_mixup, camixup_keeps_accuracy),
    *(camixup_mixes_hard_classes, mixup_helps_under_corruption, camixup_is_on_par_under_corruption),
    *(augmix_is_not_underconfident, augmixup_trades_ece_for_accuracy, augcamixup_is_best),
    *(temperature_helps_clean_alone, forgetting_beats_classes, other_metrics_order_alike),
    *(mixup_is_not_confident_inside, camixup_helps_deep_less, camixup_is_best),
)


def judge_claims(
    results: Sequence[Result], claims: "Iterable[Claim] | None" = None, dataset: str | None = None
) -> list[ClaimResult]:
    """Every claim, judged on the main regime of each data set, or of one alone.

    Those about the toy and about ImageNet are judged on the clusters and on image folders.
    """
    regimes = main_regimes(results)
    judged = []
    for claim in CLAIMS if claims is None else claims:
        names = {claim.dataset} if claim.dataset else {r.dataset for r in regimes} - {TOY, IMAGENET}
        chosen = [r for r in regimes if r.dataset in names and r.dataset not in claim.except_on]
        if dataset is not None and claim.dataset is None:
            chosen = [regime for regime in chosen if regime.dataset == dataset]
        chosen = chosen or [Regime(claim.dataset or dataset or "cifar10", "", {})]
        parts: list[Part] = []
        sizes: list[Size] = []
        for judge in (Judge(regime, ensemble) for regime in chosen for ensemble in claim.ensembles):
            try:
                outcomes = list(claim.rule(judge))
            except NotRunError as missing:
                outcomes = [judge.not_run(claim.text, str(missing))]
            parts += [replace(x, regime=judge.regime.name) for x in outcomes if isinstance(x, Part)]
            sizes += [x for x in outcomes if isinstance(x, Size)]
        text = claim.text
        judged.append(ClaimResult(claim.id, text, tuple(parts), tuple(sizes), claim.short or text))
    return judged


def claims_record(judged: Iterable[ClaimResult]) -> dict[str, Any]:
    """Plain values, for JSON."""
    return {"version": VERSION, "claims": [asdict(claim) for claim in judged]}
