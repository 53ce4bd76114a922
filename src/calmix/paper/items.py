"""The paper's tables and figures by name: which runs each needs, and how it is drawn from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from matplotlib.figure import Figure

from calmix.errors import InputError, one_of
from calmix.paper import figures
from calmix.paper import quantities as q
from calmix.paper.methods import SMOOTHED, method
from calmix.paper.study import Method, NotRunError, Study
from calmix.paper.tables import Table, comparison
from calmix.recipe import Recipe


@dataclass(frozen=True)
class Rendered:
    """What is shown of an item: tables, and figures with what can be seen in them."""

    tables: tuple[Table, ...] = ()
    figures: tuple[tuple[str, Figure], ...] = ()


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper. `dataset` is where it has one of its own."""

    name: str
    title: str
    shows: str
    methods: tuple[Method, ...]
    render: Callable[[Study], Rendered]
    corruptions: bool = False
    dataset: str | None = None

    def recipes(self, dataset: str, scale: str, seeds: int) -> list[Recipe]:
        """The runs it needs: its methods, for seeds 0, 1, ..."""
        return [
            method(self.dataset or dataset, ensemble, augment, scale=scale, seed=seed)
            for seed in range(seeds)
            for ensemble, augment in self.methods
        ]


def cross(ensembles: Sequence[str], augments: Sequence[str]) -> tuple[Method, ...]:
    return tuple(product(ensembles, augments))


THREE = ("batch", "mc", "deep")
MIXED = ("none", "mixup", "camixup")
AUGMIXED = ("none", "mixup", "camixup", "augmix", "augmix+mixup", "augmix+camixup")
AMOUNTS = (0, 0.1, 0.2, 0.3, 0.5)
SMOOTHINGS = tuple(f"{SMOOTHED}{amount:g}" if amount else "none" for amount in AMOUNTS)
BEYOND = (
    *("none", "mixup", "camixup", "camixup-by-pool", "regmixup", "mixupmp", "cutmix", "cutmix-camixup"),
    f"{SMOOTHED}0.1",
)

CLEAN_AND_CORRUPTED = (q.ACCURACY, q.ECE, q.CA, q.CECE, q.CDCE)


def _pathology(study: Study) -> Rendered:
    methods = cross(THREE, ("none", "mixup"))
    shown = (q.ERROR, q.ECE, q.GAP, q.MEMBER_ERROR, q.MEMBER_ECE, q.MEMBER_GAP)
    table = comparison("Pool and members, with and without Mixup", study, methods, shown)
    bars = figures.bars(study, methods, (q.ERROR, q.ECE), (q.MEMBER_ERROR, q.MEMBER_ECE))
    return Rendered((table,), (("Error and ECE of the pool; diamonds: the members alone", bars),))


def _reliability(study: Study) -> Rendered:
    panels = (
        ("single network", cross(("single",), ("none", "mixup"))),
        ("BatchEnsemble", cross(("batch",), MIXED)),
    )
    methods = tuple(m for _, held in panels for m in held)
    table = comparison("What the diagram sums up to", study, methods, (q.ACCURACY, q.ECE, q.GAP))
    return Rendered(
        (table,), (("Reliability of a single network and of BE", figures.reliability(study, panels)),)
    )


def _label_smoothing(study: Study) -> Rendered:
    methods = cross(THREE, SMOOTHINGS)
    table = comparison("Label smoothing", study, methods, (q.ERROR, q.ECE, q.GAP))
    return Rendered((table,), (("ECE and error against the coefficient", figures.smoothing(study, AMOUNTS)),))


def _mixup_counts(study: Study) -> Rendered:
    table = comparison("The run behind it", study, (("batch", "camixup"),), (q.ACCURACY, q.ECE))
    made = figures.counts(study, ("batch", "camixup"))
    return Rendered((table,), (("Epochs in which CAMixup mixed a class; the hardest is on top", made),))


def _camixup(study: Study) -> Rendered:
    methods = cross(THREE, MIXED)
    table = comparison("CAMixup against Mixup and none", study, methods, CLEAN_AND_CORRUPTED)
    bars = figures.bars(study, methods, (q.ERROR, q.ECE))
    return Rendered((table,), (("Error and ECE on the test set", bars),))


def _imagenet(study: Study) -> Rendered:
    methods = cross(("batch",), MIXED)
    table = comparison(
        "BE on an image folder; the paper's numbers are ImageNet's",
        study,
        methods,
        (q.ACCURACY, q.ECE, q.GAP),
    )
    return Rendered((table,))


def _corruption(study: Study) -> Rendered:
    methods = cross(THREE, MIXED)
    table = comparison("Means over types and severities", study, methods, (q.CERROR, q.CECE, q.CDCE))
    bars = figures.bars(study, methods, (q.CERROR, q.CECE))
    made = figures.boxes(study, THREE, MIXED)
    return Rendered((table,), (("Means", bars), ("By severity: boxes over the types of corruption", made)))


def _augmented(ensemble: str) -> Callable[[Study], Rendered]:
    def render(study: Study) -> Rendered:
        methods = cross((ensemble,), AUGMIXED)
        table = comparison("AugMix and mixing", study, methods, CLEAN_AND_CORRUPTED)
        panels = (("without AugMix", methods[:3]), ("with AugMix", methods[3:]))
        diagram = figures.reliability(study, panels)
        by_severity = figures.boxes(study, (ensemble,), AUGMIXED)
        return Rendered(
            (table,), (("Reliability", diagram), ("By severity: boxes over the types", by_severity))
        )

    return render


def _other_metrics(study: Study) -> Rendered:
    methods = cross(("batch", "deep"), MIXED)
    kernel = (q.SKCE, q.DCE, q.CSKCE, q.CDCE)
    binned = (q.ECE, q.ACE, q.SCE, q.TACE, q.CECE, q.CACE, q.CSCE, q.CTACE)
    tables = (
        comparison("SKCE and DCE, clean and corrupted (c)", study, methods, kernel),
        comparison("Other binned errors on DE", study, methods[3:], binned),
    )
    return Rendered(
        tables, (("SKCE and DCE, clean and corrupted (c)", figures.bars(study, methods, kernel)),)
    )


def _temperature(study: Study) -> Rendered:
    methods = cross(THREE, MIXED)
    shown = (q.TEMPERATURE, q.ECE, q.SCALED_ECE, q.CECE, q.SCALED_CECE)
    table = comparison("One temperature for the pool, fitted on validation images", study, methods, shown)
    return Rendered((table,), (("ECE before and after", figures.before_and_after(study, methods)),))


def _toy(study: Study) -> Rendered:
    methods = (("single", "mixup"), ("deep", "none"), ("deep", "mixup"))
    table = comparison("On test points", study, methods, (q.ACCURACY, q.ECE, q.GAP))
    return Rendered(
        (table,), (("Five clusters, and the confidence of three methods", figures.toy(study, methods)),)
    )


def _forgetting(study: Study) -> Rendered:
    methods = cross(("batch", "mc"), ("camixup", "forgetting"))
    shown = (q.ERROR, q.ECE, q.CERROR, q.CECE)
    table = comparison("Mixed by class, or by forgetting counts", study, methods, (*shown, q.CDCE))
    return Rendered(
        (table,), (("Error and ECE, clean and corrupted (c)", figures.bars(study, methods, shown)),)
    )


def _beyond(study: Study) -> Rendered:
    methods = cross(("deep", "batch"), BEYOND)
    shown = (q.ACCURACY, q.ECE, q.DCE, q.NLL, q.CECE, q.CDCE, q.SECONDS)
    scaled = (q.TEMPERATURE, q.SCALED_ECE, q.SCALED_DCE, q.SCALED_NLL, q.SCALED_CECE)
    table = comparison(
        "Each method before and after one temperature T for the pool", study, methods, shown + scaled
    )
    return Rendered((table,), (("ECE before and after", figures.before_and_after(study, methods)),))


ITEMS = (
    Item(
        "pathology",
        "Ensembles with and without Mixup",
        "Error and ECE of BatchEnsemble (BE), MC-dropout (MC) and deep ensembles (DE) with and without "
        "Mixup, beside their members alone.",
        cross(THREE, ("none", "mixup")),
        _pathology,
    ),
    Item(
        "reliability",
        "Accuracy and confidence, one network and BE",
        "Accuracy minus confidence against confidence, in 15 bins; above 0 is under-confident.",
        (*cross(("single",), ("none", "mixup")), *cross(("batch",), MIXED)),
        _reliability,
    ),
    Item(
        "label-smoothing",
        "Ensembles and label smoothing",
        "ECE and error against the smoothing coefficient. The paper's numbers with smoothing are from its "
        "authors' notebook.",
        cross(THREE, SMOOTHINGS),
        _label_smoothing,
    ),
    Item(
        "mixup-counts",
        "Which classes CAMixup mixes",
        "In how many epochs CAMixup was on for each class and member, beside the class's test accuracy.",
        (("batch", "camixup"),),
        _mixup_counts,
    ),
    Item(
        "camixup",
        "CAMixup against Mixup and none",
        "Accuracy and ECE, clean and over all corruptions (cA, cECE).",
        cross(THREE, MIXED),
        _camixup,
        corruptions=True,
    ),
    Item(
        "imagenet",
        "BatchEnsemble on ImageNet",
        "The same comparison with the images of a folder.",
        cross(("batch",), MIXED),
        _imagenet,
        dataset="folder",
    ),
    Item(
        "corruption",
        "Under corruption",
        "Error and ECE over 15 types of corruption at five severities.",
        cross(THREE, MIXED),
        _corruption,
        corruptions=True,
    ),
    Item(
        "augmix",
        "AugMix with BatchEnsemble",
        "AugMix alone, with Mixup (AugMixup) and with CAMixup (AugCAMixup).",
        cross(("batch",), AUGMIXED),
        _augmented("batch"),
        corruptions=True,
    ),
    Item(
        "deep-ensembles",
        "The same with deep ensembles",
        "All augmentations on deep ensembles.",
        cross(("deep",), AUGMIXED),
        _augmented("deep"),
        corruptions=True,
    ),
    Item(
        "other-metrics",
        "Other measures of calibration",
        "Kernel (SKCE) and debiased (DCE) errors, which small samples do not inflate, and other ways to bin.",
        cross(("batch", "deep"), MIXED),
        _other_metrics,
        corruptions=True,
    ),
    Item(
        "temperature",
        "CAMixup and temperature scaling",
        "ECE with and without one temperature for the pool, fitted on validation images; clean and "
        "corrupted.",
        cross(THREE, MIXED),
        _temperature,
        corruptions=True,
    ),
    Item(
        "toy",
        "Where an ensemble is confident",
        "Five clusters of different radius, and the confidence of three methods all over the plane.",
        (("single", "mixup"), ("deep", "none"), ("deep", "mixup")),
        _toy,
        dataset="clusters",
    ),
    Item(
        "forgetting",
        "Mixing forgotten examples instead of over-confident classes",
        "Class-based CAMixup against CAMixup by forgetting counts, clean and corrupted.",
        cross(("batch", "mc"), ("camixup", "forgetting")),
        _forgetting,
        corruptions=True,
    ),
    Item(
        "beyond",
        "Beyond the paper: nine ways to train, before and after a temperature",
        "CAMixup by member and by pool, RegMixup, MixupMP, CutMix and label smoothing, before and after one "
        "temperature for the pool, with the time each takes to train, its members one after the other. The "
        "paper's number with label smoothing is from its authors' notebook.",
        cross(("deep", "batch"), BEYOND),
        _beyond,
        corruptions=True,
    ),
)
NAMES = tuple(item.name for item in ITEMS)
PAPER = tuple(name for name in NAMES if name != "beyond")


def chosen(names: Sequence[str]) -> list[Item]:
    """The items called so, in the paper's order; `all` is the paper's own, which leaves out `beyond`."""
    if not names:
        raise InputError(f"name what to reproduce: all, or some of {', '.join(NAMES)}")
    for name in names:
        one_of("item", name, ("all", *NAMES))
    wanted = {*names, *(PAPER if "all" in names else ())}
    return [item for item in ITEMS if item.name in wanted]


def rendered(item: Item, study: Study) -> Rendered | str:
    """The item, or why it cannot be shown."""
    if not any(method in study.results for method in item.methods):
        return "not run"
    try:
        return item.render(study)
    except NotRunError as lacking:
        return f"not run: it needs {lacking}"
