"""The paper's claims, each a rule of a few lines that reads like its sentence, judged on a study.

A part of a claim holds where the whole interval lies on the claimed side, does not hold where it lies on the
other, and is undecided between. A claim does not hold where one part does not, and holds where every part
that was run does.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calmix.paper.estimates import Estimate, Estimates
from calmix.paper.methods import ENSEMBLES, title
from calmix.paper.mixing import class_accuracy, mixed_share
from calmix.paper.study import Method, NotRunError, Result, Study
from calmix.paper.toy import surface
from calmix.run_folder import Run

HOLDS, FAILS, UNDECIDED, NOT_RUN = "holds", "does not hold", "undecided", "not run"
TOY, IMAGENET = "clusters", "folder"


@dataclass(frozen=True)
class Part:
    """One comparison: what is compared, its verdict, and the numbers behind it."""

    of: str
    verdict: str
    evidence: str


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper; `rule` judges it for one of the `ensembles` that it speaks of.

    `dataset` is where it speaks of one of its own; of those in `aside` it does not speak.
    """

    sentence: str
    rule: Callable[[Estimates, str], Iterator[Part]]
    ensembles: tuple[str, ...] = ("batch", "mc", "deep")
    dataset: str | None = None
    aside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict."""

    number: int
    claim: str
    verdict: str
    parts: tuple[Part, ...]

    @property
    def lines(self) -> list[str]:
        """The evidence, a line for each comparison."""
        return [f"{part.of}: {part.evidence} ({part.verdict})" for part in self.parts]

    def record(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self) | {"evidence": "; ".join(self.lines)}


def claims_table(runs: Iterable[Run], dataset: str | None = None) -> list[Judged]:
    """The claims judged on the runs of a data set: the one named, or the one that has the most.

    Those about the toy and about ImageNet are judged on the clusters and the image folder, whatever it is.
    """
    runs = list(runs)
    main = dataset or main_dataset(runs)
    studies = {name: Estimates(Study.of(runs, name)) for name in (main, TOY, IMAGENET)}
    judged = []
    for number, claim in enumerate(CLAIMS, start=1):
        study = studies[claim.dataset or main]
        parts = tuple(part for e in claim.ensembles for part in _parts(claim, study, e))
        judged.append(Judged(number, claim.sentence, overall(parts), parts))
    return judged


def main_dataset(runs: Sequence[Run]) -> str:
    """The data set with the most runs, the two that single claims speak of aside."""
    names = [run.recipe.dataset for run in runs if run.recipe.dataset not in (TOY, IMAGENET)]
    return max(sorted(set(names)), key=names.count, default="cifar10")


def overall(parts: Iterable[Part]) -> str:
    found = {part.verdict for part in parts}
    return next((verdict for verdict in (FAILS, UNDECIDED, HOLDS) if verdict in found), NOT_RUN)


def _parts(claim: Claim, study: Estimates, ensemble: str) -> Iterator[Part]:
    if (dataset := study.study.dataset) in claim.aside:
        yield Part(ENSEMBLES[ensemble], NOT_RUN, f"the paper does not claim it of {dataset}")
        return
    try:
        yield from claim.rule(study, ensemble)
    except NotRunError as missing:
        yield Part(ENSEMBLES[ensemble], NOT_RUN, f"needs {missing}")


def above(of: str, number: Estimate, limit: float = 0) -> Part:
    """Whether a number lies above a limit."""
    low, high = number.interval
    return Part(of, HOLDS if low > limit else FAILS if high <= limit else UNDECIDED, str(number))


def below(of: str, number: Estimate, limit: float = 0) -> Part:
    """Whether a number lies below a limit."""
    low, high = number.interval
    return Part(of, HOLDS if high < limit else FAILS if low >= limit else UNDECIDED, str(number))


def more(quantity: Callable[..., Estimate], this: Method, that: Method, *, by: float = 0) -> Part:
    """Whether `this` has more of a quantity than `that`; by -0.2: or at most 0.2 points less."""
    return _versus(above, quantity, this, that, by)


def less(quantity: Callable[..., Estimate], this: Method, that: Method, *, by: float = 0) -> Part:
    """Whether `this` has less of a quantity than `that`; by 0.2: or at most 0.2 points more."""
    return _versus(below, quantity, this, that, by)


def _versus(
    side: Callable[..., Part], quantity: Callable[..., Estimate], this: Method, that: Method, by: float
) -> Part:
    name = {"ece": "ECE", "ca": "cA", "cece": "cECE"}.get(quantity.__name__, quantity.__name__)
    second = title(that[1]) if this[0] == that[0] else f"{ENSEMBLES[that[0]]} {title(that[1])}"
    of = f"{name} of {ENSEMBLES[this[0]]} {title(this[1])} - {second}"
    try:
        return side(of, quantity(*this) - quantity(*that), by)
    except NotRunError as missing:
        return Part(of, NOT_RUN, f"needs {missing}")


def share(results: Sequence[Result], of: Callable[[Run], float]) -> Estimate:
    """A share of each run, in per cent: counted, so that only its seeds spread."""
    values = 100 * np.array([of(result.run) for result in results])
    return Estimate(tuple(result.run.recipe.seed for result in results), values, values[:, None])


def mixup_raises_accuracy(s: Estimates, e: str) -> Iterator[Part]:
    yield more(s.accuracy, (e, "mixup"), (e, "none"))


def mixup_worsens_ece(s: Estimates, e: str) -> Iterator[Part]:
    yield more(s.ece, (e, "mixup"), (e, "none"))


def underconfidence_compounds(s: Estimates, e: str) -> Iterator[Part]:
    mixup = (e, "mixup")
    yield above(f"gap of {ENSEMBLES[e]} Mixup's members", s.member_gap(*mixup))
    yield above(f"ECE of {ENSEMBLES[e]} Mixup - its members' mean", s.ece(*mixup) - s.member_ece(*mixup))


def smoothing_worsens_ece(s: Estimates, e: str) -> Iterator[Part]:
    for amount in (0.2, 0.3, 0.5):
        yield more(s.ece, (e, f"label-smoothing-{amount}"), (e, "none"))


def camixup_is_below_mixup(s: Estimates, e: str) -> Iterator[Part]:
    yield less(s.ece, (e, "camixup"), (e, "mixup"))
    if e == "batch" and (factor := {"cifar10": 5, "cifar100": 4}.get(s.study.dataset)):
        yield below(f"{factor} x ECE of BE CAMixup - Mixup", factor * s.ece(e, "camixup") - s.ece(e, "mixup"))


def camixup_keeps_accuracy(s: Estimates, e: str) -> Iterator[Part]:
    paper_own = 0.22 if (s.study.dataset, e) == ("cifar100", "deep") else 0.2
    yield more(s.accuracy, (e, "camixup"), (e, "mixup"), by=-paper_own)
    yield more(s.accuracy, (e, "camixup"), (e, "none"))


def camixup_mixes_hard_classes(s: Estimates, e: str) -> Iterator[Part]:
    results = s.study[e, "camixup"]
    order = np.mean([class_accuracy(result.run) for result in results], axis=0).argsort()
    fifth = max(1, len(order) // 5)
    hardest = share(results, lambda run: mixed_share(run)[:, order[:fifth]].mean())
    easiest = share(results, lambda run: mixed_share(run)[:, order[-fifth:]].mean())
    yield above("% of the epochs in which the hardest fifth of the classes is mixed", hardest, 80)
    yield below("% of the epochs in which the easiest fifth of the classes is mixed", easiest, 10)


def mixup_helps_under_corruption(s: Estimates, e: str) -> Iterator[Part]:
    yield more(s.ca, (e, "mixup"), (e, "none"))
    yield less(s.cece, (e, "mixup"), (e, "none"))


def camixup_is_on_par_under_corruption(s: Estimates, e: str) -> Iterator[Part]:
    yield less(s.cece, (e, "camixup"), (e, "mixup"), by=1)


def augmix_is_not_underconfident(s: Estimates, e: str) -> Iterator[Part]:
    before = s.gap(e, "none").positive()
    yield below(f"gap of {ENSEMBLES[e]} AugMix - none, if under-confident", s.gap(e, "augmix") - before)


def augmixup_trades_ece_for_accuracy(s: Estimates, e: str) -> Iterator[Part]:
    yield more(s.accuracy, (e, "augmix+mixup"), (e, "augmix"))
    yield more(s.ece, (e, "augmix+mixup"), (e, "augmix"))


def augcamixup_is_best(s: Estimates, e: str) -> Iterator[Part]:
    for other in ("augmix", "augmix+mixup"):
        yield less(s.ece, (e, "augmix+camixup"), (e, other))
        yield less(s.cece, (e, "augmix+camixup"), (e, other))
    yield less(s.ece, (e, "augmix+camixup"), ("deep", "augmix"), by=0.2)


def temperature_helps_clean_alone(s: Estimates, e: str) -> Iterator[Part]:
    camixup = (e, "camixup")
    name = f"{ENSEMBLES[e]} CAMixup at temperature T - as it is"
    yield below(f"ECE of {name}", s.scaled_ece(*camixup) - s.ece(*camixup))
    yield above(f"cECE of {name}", s.scaled_cece(*camixup) - s.cece(*camixup), -0.2)


def forgetting_beats_classes(s: Estimates, e: str) -> Iterator[Part]:
    this, that = (e, "forgetting"), (e, "camixup")
    parts = [more(s.accuracy, this, that), more(s.ca, this, that), less(s.cece, this, that)]
    parts += [] if e == "mc" else [less(s.ece, this, that)]
    verdicts = [part.verdict for part in parts]
    most = len(parts) // 2 + 1
    lost = verdicts.count(FAILS) > len(parts) - most
    verdict = HOLDS if verdicts.count(HOLDS) >= most else FAILS if lost else UNDECIDED
    evidence = ", ".join(f"{part.of} {part.evidence}" for part in parts)
    what = f"{ENSEMBLES[e]}, {most} of {len(parts)}"
    yield Part(what, NOT_RUN if NOT_RUN in verdicts else verdict, evidence)


def other_metrics_rank_alike(s: Estimates, e: str) -> Iterator[Part]:
    """Where both are sure of the order, it must be the same."""
    for this, that in (("none", "mixup"), ("mixup", "camixup"), ("none", "camixup")):
        ece = s.ece(e, this) - s.ece(e, that)
        for name, of in (("DCE", s.dce), ("100 x SKCE", s.skce)):
            other = of(e, this) - of(e, that)
            signs = ece.sign * other.sign
            verdict = HOLDS if signs > 0 else FAILS if signs < 0 else UNDECIDED
            what = f"{name} of {ENSEMBLES[e]} {title(this)} - {title(that)}"
            yield Part(what, verdict, f"{other}, of ECE {ece}")


def mixup_is_confident_only_close(s: Estimates, e: str) -> Iterator[Part]:
    of = "% of the plane in which the deep ensemble is confident"
    yield above(of, share(s.study[e, "none"], lambda run: surface(run).confident), 80)
    of = "% of the plane far away in which the Mixup ensemble is confident"
    yield below(of, share(s.study[e, "mixup"], lambda run: surface(run).confident_far_away), 20)


def camixup_helps_deep_less(s: Estimates, e: str) -> Iterator[Part]:
    won = {k: s.ece(k, "mixup") - s.ece(k, "camixup") for k in ("batch", e)}
    yield above("points of ECE that CAMixup wins over Mixup, BE - DE", won["batch"] - won[e])
    if s.study.dataset == "cifar10":
        for other in ("none", "mixup", "camixup", "augmix+mixup", "augmix+camixup"):
            yield less(s.ece, (e, "augmix"), (e, other))


def camixup_is_best(s: Estimates, e: str) -> Iterator[Part]:
    for other in ("none", "mixup"):
        yield less(s.ece, (e, "camixup"), (e, other))


BE, DE = ("batch",), ("deep",)
CLAIMS = (
    Claim("Mixup raises accuracy", mixup_raises_accuracy),
    Claim("Mixup worsens ECE", mixup_worsens_ece),
    Claim(
        "Under-confidence compounds: with Mixup the members are under-confident, and the pool's ECE is above "
        "their mean",
        underconfidence_compounds,
    ),
    Claim("Label smoothing of 0.2 and more worsens ECE", smoothing_worsens_ece),
    Claim("CAMixup's ECE is below Mixup's", camixup_is_below_mixup),
    Claim(
        "CAMixup loses at most 0.2 points of accuracy to Mixup, and gains over none", camixup_keeps_accuracy
    ),
    Claim(
        "CAMixup mixes hard classes in more than 80 % of the epochs and easy ones in less than 10 %",
        camixup_mixes_hard_classes,
        BE,
        aside=("cifar100",),
    ),
    Claim(
        "Under corruption Mixup raises accuracy and does not worsen ECE against none",
        mixup_helps_under_corruption,
    ),
    Claim(
        "Under corruption CAMixup's ECE is on par with Mixup's: at most a point above",
        camixup_is_on_par_under_corruption,
    ),
    Claim(
        "AugMix does not make an ensemble under-confident", augmix_is_not_underconfident, ("batch", "deep")
    ),
    Claim(
        "AugMixup raises accuracy and worsens clean ECE over AugMix",
        augmixup_trades_ece_for_accuracy,
        ("batch", "deep"),
    ),
    Claim(
        "AugCAMixup has the best ECE of the three, clean and corrupted; with it BE's ECE reaches AugMix "
        "DE's, within 0.2 points",
        augcamixup_is_best,
        BE,
    ),
    Claim(
        "Temperature scaling on top of CAMixup improves clean ECE further; corrupted ECE, by at most 0.2 "
        "points",
        temperature_helps_clean_alone,
    ),
    Claim(
        "Forgetting-count CAMixup beats class-based CAMixup on most of accuracy, ECE (not MC's), cA and cECE",
        forgetting_beats_classes,
        ("batch", "mc"),
        aside=("cifar100",),
    ),
    Claim(
        "On clean data SKCE and DCE rank none, Mixup and CAMixup as ECE does",
        other_metrics_rank_alike,
        ("batch", "deep"),
    ),
    Claim(
        "On the toy the Mixup ensemble is confident only close to the clusters, the deep ensemble nearly "
        "everywhere",
        mixup_is_confident_only_close,
        DE,
        TOY,
    ),
    Claim(
        "CAMixup helps DE less than BE; on CIFAR-10 AugMix is DE's best calibrated",
        camixup_helps_deep_less,
        DE,
    ),
    Claim("On ImageNet CAMixup BE has the best ECE of the three", camixup_is_best, BE, IMAGENET),
)
