"""The paper's tables and figures by name: which runs each needs, and how it is drawn from them."""

from collections.abc import Sequence

import numpy as np

from calmix.errors import InputError, one_of
from calmix.paper.beyond import BEYOND_ITEMS
from calmix.paper.regime import method_title
from calmix.paper.sheet import Item, RenderedItem, Sheet, Shown, cross, render_item
from calmix.paper.toy import surface, surfaces_figure, surfaces_sentence
from calmix.paper.under_corruption import reliability_under_corruption
from calmix.report import figures
from calmix.report.words import listed
from calmix.runs.recipe import ENSEMBLES
from calmix.study import quantities as q
from calmix.study.estimates import NotRunError

__all__ = ["ITEMS", "NAMES", "PAPER", "Item", "RenderedItem", "render_item", "select_items"]

THREE = ("batch", "mc", "deep")
MIXED = ("none", "mixup", "camixup")
AUGMIXED = ("none", "mixup", "camixup", "augmix", "augmix+mixup", "augmix+camixup")
AMOUNTS = (0.0, 0.1, 0.2, 0.3, 0.5)
SMOOTHINGS = tuple(f"label-smoothing-{amount:g}" if amount else "none" for amount in AMOUNTS)
CLEAN_AND_CORRUPTED = (q.ACCURACY, q.ECE, q.CORRUPTED_ACCURACY, q.CORRUPTED_ECE, q.CORRUPTED_DCE)


@Item("Ensembles with and without Mixup", cross(THREE, ("none", "mixup")))
def pathology(sheet: Sheet) -> Shown:
    """Error and ECE of BatchEnsemble (BE), MC-dropout (MC) and deep ensembles (DE) with and without Mixup,
    beside their members alone.

    In the paper Mixup lowers the error of every ensemble and raises its ECE, which is then above the mean ECE
    of its members.

    mnist: The rise of the pool's ECE has the paper's sign, its cause only in part: the members alone are
    already under-confident by most of it, as one network is, and pooling adds little.

    fashion-mnist: With BE Mixup turns over-confidence into about as much under-confidence, so ECE hardly
    moves; MC and DE are less over-confident without it, and Mixup overshoots.

    cifar10: Mixup turns over-confidence into under-confidence in all three. ECE falls with BE and MC, whose
    over-confidence was the larger of the two.

    cifar100: Without mixing pools are over-confident by 13 to 20 points, about what Mixup adds to the gap.
    """
    pool, members = (q.ERROR, q.ECE), (q.MEMBER_ERROR, q.MEMBER_ECE)
    yield sheet.change("mixup", "none", q.ERROR, q.ECE)
    yield sheet.level("With Mixup the pool's ECE less the members' mean is", q.COMPOUNDING, "mixup")
    yield sheet.level("Pooling raises the gap without mixing by", q.POOLING, "none")
    yield sheet.level("Pooling raises the gap with Mixup by", q.POOLING, "mixup")
    yield sheet.table("Pool and members, with and without Mixup", *pool, q.GAP, *members, q.MEMBER_GAP)
    yield sheet.bars("Error and ECE of the pool; diamonds: the members alone", *pool, members=members)


@Item(
    "Accuracy and confidence, one network and BE",
    (*cross(("single",), ("none", "mixup")), *cross(("batch",), MIXED)),
)
def reliability(sheet: Sheet) -> Shown:
    """Accuracy minus confidence against confidence, in 15 bins; above 0 is under-confident.

    In the paper only networks that were trained with Mixup are under-confident, BatchEnsemble more than one
    network, and CAMixup corrects that.

    mnist: As in the paper, but CAMixup leaves BE under-confident by 1.7 points. One network is over-confident
    by less than a point without mixing, and with Mixup under-confident by six.

    cifar10: Mixup makes both under-confident, as in the paper, and lowers the ECE of both all the same,
    because both are over-confident by 14 points or more without it. That BE is a little more under-confident
    than one network may be noise.

    cifar100: One network is over-confident by 30 points without mixing, and still by 5 with Mixup.

    fashion-mnist: Mixup turns the over-confidence of one network into as much under-confidence; BE is not
    more under-confident than that.
    """
    yield sheet.values(q.GAP)
    yield sheet.table("What the diagram sums up to", q.ACCURACY, q.ECE, q.GAP)
    panels = {"single network": sheet.item.methods[:2], "BatchEnsemble": sheet.item.methods[2:]}
    yield sheet.reliability("Reliability of a single network and of BE", panels)


@Item("Ensembles and label smoothing", cross(THREE, SMOOTHINGS))
def label_smoothing(sheet: Sheet) -> Shown:
    """ECE and error against the smoothing coefficient. The paper's numbers with smoothing are from its
    authors' notebook.

    In the paper smoothed labels worsen an ensemble's ECE as mixed ones do, most from a coefficient of 0.2 on.

    cifar10: Smoothing takes over-confidence away first: with 0.1 BE and MC are calibrated (ECE 1.1 and
    1.2 %), and DE is under-confident by 5 points instead of over-confident by 7. More of it makes all three
    under-confident.
    """
    for amount in (0.2, 0.5):
        yield sheet.change(f"label-smoothing-{amount:g}", "none", q.ECE)
    yield sheet.table("Label smoothing", q.ERROR, q.ECE, q.GAP)
    for one in sheet.each():
        series = {
            ENSEMBLES[ensemble].short: {
                amount: list(one.regime.results[ensemble, augment])
                for amount, augment in zip(AMOUNTS, SMOOTHINGS, strict=True)
                if (ensemble, augment) in one.regime.results
            }
            for ensemble in THREE
        }
        figure = figures.lines(series, (q.ECE, q.ERROR), xlabel="label smoothing", title=one.subject)
        yield one.figure("ECE and error against the coefficient", figure)


@Item("Which classes CAMixup mixes", (("batch", "camixup"),))
def mixup_counts(sheet: Sheet) -> Shown:
    """In how many epochs CAMixup was on for each class and member, beside the class's test accuracy.

    In the paper the hardest class of CIFAR-10 is mixed in more than 80 % of the epochs and the easiest in
    fewer than 10 %.
    """
    yield sheet.table("The runs behind it", q.ACCURACY, q.ECE)
    by_class = {
        one: [r for r in one.regime["batch", "camixup"] if r.mixed is not None and not r.recipe.by_group]
        for one in sheet.each()
    }
    if not any(by_class.values()):
        raise NotRunError("a run whose CAMixup decides by class")
    for one, results in by_class.items():
        if not results:
            continue
        shares = [result.mixed for result in results if result.mixed is not None]
        accuracies = [r.class_accuracy for r in results if r.class_accuracy is not None]
        names = results[0].group_names(shares[0].shape[1])
        mean = np.mean(accuracies, axis=0)
        mixed = np.mean([share.mean(0) for share in shares], axis=0)
        hard, easy = (np.flatnonzero(mean == end) for end in (np.nanmin(mean), np.nanmax(mean)))
        hardest, easiest = (listed([names[k] for k in some]) for some in (hard, easy))
        often, seldom = (listed([f"{100 * mixed[k]:.0f} %" for k in some]) for some in (hard, easy))
        text = f"The hardest class ({hardest}) is mixed in {often} of the epochs, the easiest ({easiest})"
        yield {one.regime.dataset: f"{text} in {seldom}."}
        figure = figures.mixed_classes(np.concatenate(shares), mean, names, title=one.subject)
        yield one.figure("Epochs in which CAMixup mixed a class; the hardest is on top", figure)


@Item("CAMixup against Mixup and none", cross(THREE, MIXED), corruptions=True)
def camixup(sheet: Sheet) -> Shown:
    """Accuracy and ECE, clean and over all corruptions (cA, cECE).

    In the paper CAMixup keeps nearly all of Mixup's accuracy with an ECE below that of no mixing for BE, and
    between none and Mixup for DE.

    mnist: Without mixing all three are within a point of calibrated. CAMixup takes away most of what Mixup
    adds, and leaves them under-confident by 1.5 to 1.7 points, with a higher ECE than without mixing.

    fashion-mnist: CAMixup has the lowest mean ECE of the three, as the paper finds for BE, and the lowest
    mean accuracy: Shirt, which it mixes in nearly every epoch, is predicted less often (that mixing is the
    cause was not tested). ECE looks at the top label alone; NLL is the highest with CAMixup on DE.

    cifar10: CAMixup takes most of their over-confidence from BE and MC and overshoots with DE. BE and MC are
    less accurate than without mixing by more than a point, within noise; DE is as accurate.

    cifar100: All three with CAMixup are about as accurate as without mixing and stay over-confident, more so
    under corruption. On clean images Mixup of all classes takes nearly all over-confidence away; it costs BE
    three points of accuracy.
    """
    yield sheet.change("camixup", "mixup", q.ACCURACY, q.ECE)
    yield sheet.change("camixup", "none", q.ACCURACY, q.ECE)
    yield sheet.table(sheet.item.title, q.ACCURACY, q.ECE, q.GAP, q.NLL, *CLEAN_AND_CORRUPTED[2:])
    yield sheet.bars("Error and ECE on the test set", q.ERROR, q.ECE)


@Item("BatchEnsemble on ImageNet", cross(("batch",), MIXED), dataset="folder")
def imagenet(sheet: Sheet) -> Shown:
    """The same comparison with the images of a folder.

    In the paper CAMixup has the best ECE of the three on ImageNet: 1.5 %, against 2.0 and 2.1.
    """
    yield sheet.change("camixup", "none", q.ECE)
    yield sheet.change("camixup", "mixup", q.ECE)
    yield sheet.table("BE on an image folder", q.ACCURACY, q.ECE, q.GAP)


@Item("Under corruption", cross(THREE, MIXED), corruptions=True)
def corruption(sheet: Sheet) -> Shown:
    """Error and ECE over 15 types of corruption at five severities.

    In the paper Mixup is more accurate and better calibrated under corruption, and CAMixup about as good.

    mnist: With BE the standard deviation over seeds is about as large as the differences between methods.
    Corruptions made for photographs turn the black ground of digits grey; whether that matters was not
    tested.

    fashion-mnist: Mixup gains far more accuracy than CAMixup, which has the lower mean ECE.
    """
    caption = "Error and ECE: means over types and severities"
    yield sheet.change("mixup", "none", q.CORRUPTED_ERROR, q.CORRUPTED_ECE)
    yield sheet.change("camixup", "mixup", q.CORRUPTED_ERROR, q.CORRUPTED_ECE)
    yield sheet.table(caption, q.CORRUPTED_ERROR, q.CORRUPTED_ECE, q.CORRUPTED_DCE)
    yield sheet.bars(caption, q.CORRUPTED_ERROR, q.CORRUPTED_ECE, name="means")
    yield from sheet.severities()


@Item("AugMix with BatchEnsemble", cross(("batch",), AUGMIXED), corruptions=True)
def augmix(sheet: Sheet) -> Shown:
    """AugMix alone, with Mixup (AugMixup) and with CAMixup (AugCAMixup).

    In the paper AugMix leaves BE calibrated, AugMixup adds accuracy and ECE, and AugCAMixup has the best ECE
    of the three.

    mnist: BE with AugMix alone is over-confident by less than a point, and AugCAMixup overshoots.

    cifar10: AugMix alone leaves BE over-confident, so Mixup lowers its ECE; why it costs so much accuracy is
    open (more than 80 epochs were not tried).

    cifar100: AugMix alone leaves BE over-confident, and Mixup costs accuracy, as on cifar10. AugMixup has the
    lowest ECE: with AugMix 83 of 100 classes are over-confident, so mixing fewer may take too little away
    (not tested).
    """
    yield sheet.level("With AugMix the gap is", q.GAP, "augmix")
    yield sheet.change("augmix+mixup", "augmix", q.ACCURACY, q.ECE)
    for other in ("augmix", "augmix+mixup"):
        yield sheet.change("augmix+camixup", other, q.ECE, q.CORRUPTED_ECE)
    yield sheet.table("AugMix and mixing", *CLEAN_AND_CORRUPTED)
    methods = sheet.item.methods
    caption = "Accuracy minus confidence against confidence, without and with AugMix"
    yield sheet.reliability(caption, {"without AugMix": methods[:3], "with AugMix": methods[3:]})
    yield from sheet.severities()


@Item("The same with deep ensembles", cross(("deep",), AUGMIXED), corruptions=True)
def deep_ensembles(sheet: Sheet) -> Shown:
    """All augmentations on deep ensembles; and Mixup on the clean test set, at severity 3 and at severity 5.

    In the paper CAMixup helps deep ensembles less than BE, and on CIFAR-10 AugMix alone is their best
    calibrated.

    cifar10: AugMix alone leaves the pool over-confident, clean and under corruption. AugCAMixup has the
    lowest ECE of the six, within noise of AugMix alone.

    cifar100: AugMix alone leaves the pool over-confident by 11 points; AugMixup takes nearly all of that away
    and is the least accurate.
    """
    yield from augmix.draw(sheet)
    yield from reliability_under_corruption(sheet)


@Item("Other measures of calibration", cross(("batch", "deep"), MIXED), corruptions=True)
def other_metrics(sheet: Sheet) -> Shown:
    """Kernel (SKCE) and debiased (DCE) errors, which small samples do not inflate, and other ways to bin.

    In the paper SKCE and DCE order none, Mixup and CAMixup as ECE does on clean data.

    fashion-mnist: SKCE has its highest value with CAMixup, which has the lowest ECE. It looks at all classes,
    and Shirt is predicted too rarely then: where each class's mean probability is set to its frequency, SKCE
    is lowest with CAMixup (tested with MC, one seed).

    cifar10: SKCE has its highest value with CAMixup, which has the lowest ECE. It looks at all classes, and
    some are predicted too rarely then, deer most of all: where each class's mean probability is set to its
    frequency, SKCE is lowest with CAMixup (tested with all three, one seed).

    cifar100: SKCE is lowest without mixing, where ECE is highest. Mixing moves probability between classes:
    where each class's mean probability is set to its frequency, SKCE is highest without mixing (tested with
    MC, one seed).
    """
    kernel = (q.SKCE, q.DCE, q.CORRUPTED_SKCE, q.CORRUPTED_DCE)
    clean = (q.ECE, q.ACE, q.SCE, q.TACE)
    corrupted = (q.CORRUPTED_ECE, q.CORRUPTED_ACE, q.CORRUPTED_SCE, q.CORRUPTED_TACE)
    yield sheet.order(q.ECE, q.DCE, q.SKCE)
    yield sheet.table("SKCE and DCE, clean and corrupted (c)", *kernel)
    yield sheet.table("Other binned errors on DE", *clean, *corrupted, methods=cross(("deep",), MIXED))
    yield sheet.bars("SKCE and DCE, clean and corrupted (c)", *kernel)


@Item("CAMixup and temperature scaling", cross(THREE, MIXED), corruptions=True, calibrates=True)
def temperature(sheet: Sheet) -> Shown:
    """ECE with and without one temperature for the pool, fitted on validation images; clean and corrupted.

    In the paper a temperature on top of CAMixup lowers the clean ECE and does nothing for the corrupted.

    mnist: The temperature of CAMixup is below 1 here, which raises confidence. About three quarters of the
    corrupted sets are under-confident with CAMixup, and their mean ECE falls too, within noise.
    """
    shown = (q.TEMPERATURE, q.ECE, q.SCALED_ECE, q.CORRUPTED_ECE, q.SCALED_CORRUPTED_ECE)
    changes = {"clean": q.SCALING_CHANGE, "corrupted": q.CORRUPTED_SCALING_CHANGE}
    for condition, change in changes.items():
        yield sheet.level(f"With CAMixup a temperature changes the {condition} ECE by", change, "camixup")
    words = "After a temperature each, Mixup is at least as well calibrated as CAMixup in"
    scaled = {"clean": q.SCALED_ECE, "corrupted": q.SCALED_CORRUPTED_ECE}
    yield sheet.count(words, "mixup", "camixup", scaled)
    yield sheet.table("One temperature for the pool, fitted on validation images", *shown)
    yield from sheet.before_and_after()


@Item(
    "Where an ensemble is confident",
    (("single", "mixup"), ("deep", "none"), ("deep", "mixup")),
    dataset="clusters",
)
def toy(sheet: Sheet) -> Shown:
    """Five clusters of different radius, and the confidence of three methods all over the plane.

    In the paper a deep ensemble is confident inside the ring of clusters and a Mixup ensemble is not; close
    to a cluster both are.

    clusters: Perceptrons agree close to the clusters, where the test points are, so pooling four takes away
    little confidence there and nothing compounds; between the clusters it takes away more.
    """
    yield sheet.values(q.ECE, q.GAP, q.MEMBER_GAP)
    yield sheet.table("On test points", q.ACCURACY, q.ECE, q.GAP)
    runs = {m: sheet.regime.results[m] for m in sheet.item.methods if m in sheet.regime.results}
    surfaces = {method_title(method): surface(results[0].run) for method, results in runs.items()}
    pools = {
        method_title(m): [surface(r.run) for r in results] for m, results in runs.items() if m[0] == "deep"
    }
    yield surfaces_sentence(pools)
    figure = surfaces_figure(surfaces, title=f"{sheet.subject}; surfaces of seed 0")
    yield sheet.figure("Five clusters, and the confidence of three methods", figure)


@Item(
    "Mixing forgotten examples instead of over-confident classes",
    cross(("batch", "mc"), ("camixup", "forgetting")),
    corruptions=True,
)
def forgetting(sheet: Sheet) -> Shown:
    """Class-based CAMixup against CAMixup by forgetting counts, clean and corrupted.

    In the paper forgetting counts beat classes on most measures of CIFAR-10, but not on MC's clean ECE, and
    not on CIFAR-100.
    """
    shown = (q.ERROR, q.ECE, q.CORRUPTED_ERROR, q.CORRUPTED_ECE)
    yield sheet.change("forgetting", "camixup", *shown)
    yield sheet.table("Mixed by class, or by forgetting counts", *shown, q.CORRUPTED_DCE)
    yield sheet.bars("Error and ECE, clean and corrupted (c)", *shown)


PAPER_ITEMS = (
    *(pathology, reliability, label_smoothing, mixup_counts, camixup, imagenet, corruption, augmix),
    *(deep_ensembles, other_metrics, temperature, toy, forgetting),
)
ITEMS = (*PAPER_ITEMS, *BEYOND_ITEMS)
NAMES = tuple(item.name for item in ITEMS)
PAPER = tuple(item.name for item in PAPER_ITEMS)


def select_items(names: Sequence[str]) -> list[Item]:
    """The items of these names, in the paper's order; `all` is the paper's own, `everything` those beyond it
    too."""
    if not names:
        raise InputError(f"name what to reproduce: all, everything, or some of {', '.join(NAMES)}")
    for name in names:
        one_of("item", name, ("all", "everything", *NAMES))
    wanted = {*names, *(PAPER if "all" in names else ()), *(NAMES if "everything" in names else ())}
    return [item for item in ITEMS if item.name in wanted]
