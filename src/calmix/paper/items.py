"""The paper's tables and figures by name: which runs each needs, and how it is drawn from them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

import numpy as np
from matplotlib.figure import Figure

from calmix.errors import InputError, one_of
from calmix.paper.numbers import published
from calmix.paper.regime import Method, Regime, method_title
from calmix.paper.toy import surface, surfaces_figure
from calmix.report import figures
from calmix.report.figures import CaptionedFigure
from calmix.report.reliability import Curve, reliability_figure
from calmix.report.style import colour
from calmix.report.tables import Table, comparison
from calmix.runs.augmentation import parse_augmentation
from calmix.runs.presets import preset
from calmix.runs.recipe import ENSEMBLES, Recipe
from calmix.study import quantities as q
from calmix.study.estimates import NotRunError
from calmix.study.quantities import Quantity

Shown: TypeAlias = Iterator[Table | CaptionedFigure]


@dataclass(frozen=True)
class RenderedItem:
    """What is shown of an item."""

    tables: tuple[Table, ...] = ()
    figures: tuple[CaptionedFigure, ...] = ()


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper; it decorates the function that draws it, whose name is its name and
    whose docstring says what it shows. `dataset` is where it has one of its own."""

    title: str
    methods: tuple[Method, ...]
    corruptions: bool = False
    dataset: str | None = None
    draw: Callable[["Sheet"], Shown] = lambda sheet: iter(())

    def __call__(self, draw: Callable[["Sheet"], Shown]) -> "Item":
        return replace(self, draw=draw)

    @property
    def name(self) -> str:
        return self.draw.__name__.replace("_", "-")

    @property
    def shows(self) -> str:
        return " ".join((self.draw.__doc__ or "").split())

    def recipes(self, dataset: str, scale: str, seeds: int) -> list[Recipe]:
        """The runs it needs: its methods, for seeds 0, 1, ..."""
        return [
            preset(self.dataset or dataset, ensemble, augment, scale=scale, seed=seed)
            for seed in range(seeds)
            for ensemble, augment in self.methods
        ]

    def render(self, regime: Regime) -> RenderedItem:
        shown = list(self.draw(Sheet(self, regime)))
        tables = tuple(each for each in shown if isinstance(each, Table))
        return RenderedItem(tables, tuple(each for each in shown if isinstance(each, CaptionedFigure)))


@dataclass(frozen=True, eq=False)
class Sheet:
    """The parts of which items are put together, for the runs of one regime."""

    item: Item
    regime: Regime

    @property
    def subject(self) -> str:
        """Data set, scale and seeds, for the titles of figures."""
        by_method = self.regime.results.values()
        scales = ", ".join(dict.fromkeys(result.recipe.scale for results in by_method for result in results))
        count = max(map(len, by_method), default=0)
        return f"{self.regime.dataset}, {scales} scale, {count} seed{'s' * (count != 1)}"

    def table(self, caption: str, *quantities: Quantity, methods: Sequence[Method] = ()) -> Table:
        groups = self.regime.groups(methods or self.item.methods)
        return comparison(caption, groups, quantities, published=published)

    def figure(self, caption: str, figure: Figure, name: str = "") -> CaptionedFigure:
        name = "-".join(filter(None, (self.regime.dataset, self.item.name, name)))
        return CaptionedFigure(name, f"{self.item.title}: {self.subject}", caption, caption, figure)

    def bars(
        self, caption: str, *quantities: Quantity, members: Sequence[Quantity] = (), name: str = ""
    ) -> CaptionedFigure:
        groups = self.regime.groups(self.item.methods)
        return self.figure(caption, figures.bars(groups, quantities, members, title=self.subject), name)

    def reliability(self, caption: str, panels: Mapping[str, Sequence[Method]]) -> CaptionedFigure:
        drawn = {}
        for name, methods in panels.items():
            tops = {m: [r.top_labels for r in self.regime.results.get(m, ())] for m in methods}
            seeds = {m: [top for top in each if top is not None] for m, each in tops.items()}
            curves = [Curve(parse_augmentation(m[1]).title, s, colour(m[1])) for m, s in seeds.items() if s]
            if curves:
                drawn[name] = curves
        return self.figure(caption, reliability_figure(drawn, title=self.subject), "reliability")

    def severities(self) -> CaptionedFigure:
        figure = figures.severity_boxes(self.regime.groups(self.item.methods), title=self.subject)
        return self.figure("By severity: boxes over the types of corruption", figure, "severity")

    def before_and_after(self) -> CaptionedFigure:
        pairs = ((q.ECE, q.SCALED_ECE), (q.CORRUPTED_ECE, q.SCALED_CORRUPTED_ECE))
        figure = figures.before_and_after(self.regime.groups(self.item.methods), pairs, title=self.subject)
        return self.figure("ECE before and after", figure)


def cross(ensembles: Sequence[str], augments: Sequence[str]) -> tuple[Method, ...]:
    return tuple(product(ensembles, augments))


THREE = ("batch", "mc", "deep")
MIXED = ("none", "mixup", "camixup")
AUGMIXED = ("none", "mixup", "camixup", "augmix", "augmix+mixup", "augmix+camixup")
AMOUNTS = (0.0, 0.1, 0.2, 0.3, 0.5)
SMOOTHINGS = tuple(f"label-smoothing-{amount:g}" if amount else "none" for amount in AMOUNTS)
BEYOND = (
    *("none", "mixup", "camixup", "camixup-by-pool", "regmixup", "mixupmp", "cutmix", "cutmix-camixup"),
    "label-smoothing-0.1",
)
CLEAN_AND_CORRUPTED = (q.ACCURACY, q.ECE, q.CORRUPTED_ACCURACY, q.CORRUPTED_ECE, q.CORRUPTED_DCE)


@Item("Ensembles with and without Mixup", cross(THREE, ("none", "mixup")))
def pathology(sheet: Sheet) -> Shown:
    """Error and ECE of BatchEnsemble (BE), MC-dropout (MC) and deep ensembles (DE) with and without Mixup,
    beside their members alone."""
    pool, members = (q.ERROR, q.ECE), (q.MEMBER_ERROR, q.MEMBER_ECE)
    yield sheet.table("Pool and members, with and without Mixup", *pool, q.GAP, *members, q.MEMBER_GAP)
    yield sheet.bars("Error and ECE of the pool; diamonds: the members alone", *pool, members=members)


@Item(
    "Accuracy and confidence, one network and BE",
    (*cross(("single",), ("none", "mixup")), *cross(("batch",), MIXED)),
)
def reliability(sheet: Sheet) -> Shown:
    """Accuracy minus confidence against confidence, in 15 bins; above 0 is under-confident."""
    yield sheet.table("What the diagram sums up to", q.ACCURACY, q.ECE, q.GAP)
    panels = {"single network": sheet.item.methods[:2], "BatchEnsemble": sheet.item.methods[2:]}
    yield sheet.reliability("Reliability of a single network and of BE", panels)


@Item("Ensembles and label smoothing", cross(THREE, SMOOTHINGS))
def label_smoothing(sheet: Sheet) -> Shown:
    """ECE and error against the smoothing coefficient. The paper's numbers with smoothing are from its
    authors' notebook."""
    yield sheet.table("Label smoothing", q.ERROR, q.ECE, q.GAP)
    series = {
        ENSEMBLES[ensemble].short: {
            amount: list(sheet.regime.results[ensemble, augment])
            for amount, augment in zip(AMOUNTS, SMOOTHINGS, strict=True)
            if (ensemble, augment) in sheet.regime.results
        }
        for ensemble in THREE
    }
    figure = figures.lines(series, (q.ECE, q.ERROR), xlabel="label smoothing", title=sheet.subject)
    yield sheet.figure("ECE and error against the coefficient", figure)


@Item("Which classes CAMixup mixes", (("batch", "camixup"),))
def mixup_counts(sheet: Sheet) -> Shown:
    """In how many epochs CAMixup was on for each class and member, beside the class's test accuracy."""
    yield sheet.table("The runs behind it", q.ACCURACY, q.ECE)
    results = [r for r in sheet.regime["batch", "camixup"] if r.mixed is not None and not r.recipe.by_group]
    if not results:
        raise NotRunError("a run whose CAMixup decides by class")
    shares = [result.mixed for result in results if result.mixed is not None]
    accuracies = [r.class_accuracy for r in results if r.class_accuracy is not None]
    names = results[0].group_names(shares[0].shape[1])
    mean = np.mean(accuracies, axis=0)
    figure = figures.mixed_classes(np.concatenate(shares), mean, names, title=sheet.subject)
    yield sheet.figure("Epochs in which CAMixup mixed a class; the hardest is on top", figure)


@Item("CAMixup against Mixup and none", cross(THREE, MIXED), corruptions=True)
def camixup(sheet: Sheet) -> Shown:
    """Accuracy and ECE, clean and over all corruptions (cA, cECE)."""
    yield sheet.table(sheet.item.title, *CLEAN_AND_CORRUPTED)
    yield sheet.bars("Error and ECE on the test set", q.ERROR, q.ECE)


@Item("BatchEnsemble on ImageNet", cross(("batch",), MIXED), dataset="folder")
def imagenet(sheet: Sheet) -> Shown:
    """The same comparison with the images of a folder."""
    yield sheet.table("BE on an image folder", q.ACCURACY, q.ECE, q.GAP)


@Item("Under corruption", cross(THREE, MIXED), corruptions=True)
def corruption(sheet: Sheet) -> Shown:
    """Error and ECE over 15 types of corruption at five severities."""
    caption = "Means over types and severities"
    yield sheet.table(caption, q.CORRUPTED_ERROR, q.CORRUPTED_ECE, q.CORRUPTED_DCE)
    yield sheet.bars(caption, q.CORRUPTED_ERROR, q.CORRUPTED_ECE, name="means")
    yield sheet.severities()


@Item("AugMix with BatchEnsemble", cross(("batch",), AUGMIXED), corruptions=True)
def augmix(sheet: Sheet) -> Shown:
    """AugMix alone, with Mixup (AugMixup) and with CAMixup (AugCAMixup)."""
    yield sheet.table("AugMix and mixing", *CLEAN_AND_CORRUPTED)
    methods = sheet.item.methods
    yield sheet.reliability("Reliability", {"without AugMix": methods[:3], "with AugMix": methods[3:]})
    yield sheet.severities()


@Item("The same with deep ensembles", cross(("deep",), AUGMIXED), corruptions=True)
def deep_ensembles(sheet: Sheet) -> Shown:
    """All augmentations on deep ensembles."""
    return augmix.draw(sheet)


@Item("Other measures of calibration", cross(("batch", "deep"), MIXED), corruptions=True)
def other_metrics(sheet: Sheet) -> Shown:
    """Kernel (SKCE) and debiased (DCE) errors, which small samples do not inflate, and other ways to bin."""
    kernel = (q.SKCE, q.DCE, q.CORRUPTED_SKCE, q.CORRUPTED_DCE)
    clean = (q.ECE, q.ACE, q.SCE, q.TACE)
    corrupted = (q.CORRUPTED_ECE, q.CORRUPTED_ACE, q.CORRUPTED_SCE, q.CORRUPTED_TACE)
    yield sheet.table("SKCE and DCE, clean and corrupted (c)", *kernel)
    yield sheet.table("Other binned errors on DE", *clean, *corrupted, methods=cross(("deep",), MIXED))
    yield sheet.bars("SKCE and DCE, clean and corrupted (c)", *kernel)


@Item("CAMixup and temperature scaling", cross(THREE, MIXED), corruptions=True)
def temperature(sheet: Sheet) -> Shown:
    """ECE with and without one temperature for the pool, fitted on validation images; clean and
    corrupted."""
    shown = (q.TEMPERATURE, q.ECE, q.SCALED_ECE, q.CORRUPTED_ECE, q.SCALED_CORRUPTED_ECE)
    yield sheet.table("One temperature for the pool, fitted on validation images", *shown)
    yield sheet.before_and_after()


@Item(
    "Where an ensemble is confident",
    (("single", "mixup"), ("deep", "none"), ("deep", "mixup")),
    dataset="clusters",
)
def toy(sheet: Sheet) -> Shown:
    """Five clusters of different radius, and the confidence of three methods all over the plane."""
    yield sheet.table("On test points", q.ACCURACY, q.ECE, q.GAP)
    runs = {m: sheet.regime.results[m][0].run for m in sheet.item.methods if m in sheet.regime.results}
    surfaces = {method_title(method): surface(run) for method, run in runs.items()}
    figure = surfaces_figure(surfaces, title=f"{sheet.subject}; surfaces of seed 0")
    yield sheet.figure("Five clusters, and the confidence of three methods", figure)


@Item(
    "Mixing forgotten examples instead of over-confident classes",
    cross(("batch", "mc"), ("camixup", "forgetting")),
    corruptions=True,
)
def forgetting(sheet: Sheet) -> Shown:
    """Class-based CAMixup against CAMixup by forgetting counts, clean and corrupted."""
    shown = (q.ERROR, q.ECE, q.CORRUPTED_ERROR, q.CORRUPTED_ECE)
    yield sheet.table("Mixed by class, or by forgetting counts", *shown, q.CORRUPTED_DCE)
    yield sheet.bars("Error and ECE, clean and corrupted (c)", *shown)


@Item(
    "Beyond the paper: nine ways to train, before and after a temperature",
    cross(("deep", "batch"), BEYOND),
    corruptions=True,
)
def beyond(sheet: Sheet) -> Shown:
    """CAMixup by member and by pool, RegMixup, MixupMP, CutMix and label smoothing, before and after one
    temperature for the pool, with the time each takes to train, its members one after the other. The paper's
    number with label smoothing is from its authors' notebook."""
    before = (q.ACCURACY, q.ECE, q.DCE, q.NLL, q.CORRUPTED_ECE, q.CORRUPTED_DCE, q.SECONDS)
    after = (q.TEMPERATURE, q.SCALED_ECE, q.SCALED_DCE, q.SCALED_NLL, q.SCALED_CORRUPTED_ECE)
    yield sheet.table("Each method before and after one temperature T for the pool", *before, *after)
    yield sheet.before_and_after()


ITEMS = (
    *(pathology, reliability, label_smoothing, mixup_counts, camixup, imagenet, corruption, augmix),
    *(deep_ensembles, other_metrics, temperature, toy, forgetting, beyond),
)
NAMES = tuple(item.name for item in ITEMS)
PAPER = tuple(name for name in NAMES if name != "beyond")


def select_items(names: Sequence[str]) -> list[Item]:
    """The items of these names, in the paper's order; `all` is the paper's own, without `beyond`."""
    if not names:
        raise InputError(f"name what to reproduce: all, or some of {', '.join(NAMES)}")
    for name in names:
        one_of("item", name, ("all", *NAMES))
    wanted = {*names, *(PAPER if "all" in names else ())}
    return [item for item in ITEMS if item.name in wanted]


def render_item(item: Item, regime: Regime) -> RenderedItem | str:
    """The item, or why it cannot be shown."""
    if not any(method in regime.results for method in item.methods):
        return "not run"
    try:
        return item.render(regime)
    except NotRunError as missing:
        return f"not run: it needs {missing}"
