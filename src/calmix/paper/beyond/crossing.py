"""When does Mixup harm an ensemble? Its effect against the error of the same ensemble without it."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calmix.paper.sheet import Item, Sheet, Shown, Variant
from calmix.report.figures.effects import Effect, EffectPanel, effects
from calmix.report.tables import Cell, Table, interval_text
from calmix.report.words import listed
from calmix.runs.recipe import ENSEMBLES
from calmix.study import quantities as q
from calmix.study.crossing import Crossing, find_crossing
from calmix.study.estimates import Estimate, NotRunError, SeedVariance, estimate
from calmix.study.quantities import Quantity
from calmix.study.results import Result

# Data set: numbers of training images; None is the preset's own.
REGIMES: dict[str, tuple[int | None, ...]] = {
    "mnist": (250, 500, 1000, 2000, 4000),
    "fashion-mnist": (None,),
    "cifar10": (None, 10_000),
    "cifar100": (None,),
}
DIGITS, SMOKE = (60, 120, 250, 500), (40, 80, 120)
THREE = ("batch", "mc", "deep")
PUBLIC = {"batch": 0.08, "mc": 0.12, "deep": 0.25}  # of published tables: error at which ECE is unchanged


def _variants(dataset: str, scale: str) -> list[Variant]:
    """MNIST, Fashion-MNIST and CIFAR whatever the data set asked for; the embedded digits on their own."""
    regimes: dict[str, tuple[int | None, ...]] = REGIMES
    if dataset == "digits":
        regimes = {"digits": DIGITS}
    if scale == "smoke":
        regimes = {dataset: SMOKE}
    return [
        Variant(ensemble, augment, () if size is None else (("train_size", size),), name)
        for name, sizes in regimes.items()
        for size in sizes
        for ensemble in THREE
        for augment in ("none", "mixup")
    ]


@Item("When Mixup harms an ensemble", variants=_variants)
def crossing(sheet: Sheet) -> Shown:
    """Does Mixup worsen every ensemble's calibration, or only that of accurate ones? Each point is one data
    set and number of training images. The bars near 0 reach from the last regime in which Mixup raises the
    pool's ECE to the first, of a larger error, in which it lowers it; the tick is where the effect,
    interpolated from regime to regime over the logarithm of the error, is 0. The regimes on its two sides can
    be of two data sets, and then more than the error changes between them. The second figure has the same
    effects against the gap without mixing: ECE is close to the absolute gap, and Mixup raises the gap.
    Where no ensemble of a regime has two seeds, intervals cover the test images alone. The triangles are a
    rule of thumb from CIFAR networks that others published, not measured here: errors of about 8 % for BE,
    12 % for MC and 25 % for DE. The paper's own BE on CIFAR-100 does not follow it: at an error of 18 % its
    ECE rises from 2.8 to 9.7 %."""
    points = list(_points(sheet))
    series = {e: sorted((p for p in points if p.ensemble == e), key=lambda p: p.error) for e in THREE}
    series = {e: some for e, some in series.items() if some}
    if not series:
        raise NotRunError("Mixup and none in one regime or more")
    crossings = {e: _crossing(some) for e, some in series.items()}
    yield " ".join(_gap_sentences(points))
    yield " ".join(_sentences(series))
    yield _crossings_table(series, crossings)
    yield _points_table(points)
    short = {ensemble: ENSEMBLES[ensemble].short for ensemble in series}

    def panel(quantity: Quantity, x: str, xlabel: str, **options: Any) -> EffectPanel:
        drawn = {
            short[e]: [_effect(p, quantity.name, getattr(p, x)) for p in some] for e, some in series.items()
        }
        return EffectPanel(f"effect on {quantity.title}", xlabel, drawn, **options)

    marks: Any = {
        "crossings": {short[e]: found for e, found in crossings.items()},
        "published": {short[e]: PUBLIC[e] for e in series},
    }
    error, gap = "error of the pool without mixing, %", "gap of the pool without mixing, points"
    by_error = [panel(q.ECE, "error", error, **marks), panel(q.ACCURACY, "error", error)]
    drawing = effects(by_error, title=sheet.subject)
    yield sheet.figure("Effect of Mixup against the error without it, with 95 % intervals", drawing)
    drawing = effects([panel(q.ECE, "gap", gap, log=False)], title=sheet.subject)
    yield sheet.figure("Effect of Mixup against the gap without it, with 95 % intervals", drawing, "gap")


class Point:
    """A regime: error and gap without mixing, and what Mixup changes."""

    def __init__(self, ensemble: str, by_ensemble: Mapping[str, Sequence[Sequence[Result]]]) -> None:
        none, mixup = by_ensemble[ensemble]
        recipe = none[0].recipe
        self.ensemble, self.dataset, self.train_size = ensemble, recipe.dataset, recipe.train_size
        self.effects = {x.name: _difference(x, ensemble, by_ensemble) for x in (q.ECE, q.ACCURACY)}
        self.gap, self.mixup_gap = (estimate(some, q.GAP, SeedVariance()).value for some in (none, mixup))
        eces = (estimate(some, q.ECE, SeedVariance()).value for some in (none, mixup))
        # How far each ECE is from the absolute gap, which it cannot be below.
        self.excess = [ece - abs(gap) for ece, gap in zip(eces, (self.gap, self.mixup_gap), strict=True)]
        # An error of 0 has no place on a logarithmic axis: half an image is the least.
        images = none[0].summary.clean.examples if none[0].summary else 1
        self.error = max(estimate(none, q.ERROR, SeedVariance()).value, 0.5 / images)


def _points(sheet: Sheet) -> Iterator[Point]:
    regimes: dict[tuple[object, ...], dict[str, list[tuple[Result, ...]]]] = {}
    for variant, none in sheet.variants.items():
        if variant.augment != "none":
            continue
        mixup = sheet.variants.get(replace(variant, augment="mixup"), ())
        both = [tuple(r for r in some if r.summary) for some in (none, mixup)]
        if all(both):
            regimes.setdefault((variant.dataset, variant.fields), {})[variant.ensemble] = both
    for by_ensemble in regimes.values():
        yield from (Point(ensemble, by_ensemble) for ensemble in by_ensemble)


def _difference(
    quantity: Quantity, ensemble: str, by_ensemble: Mapping[str, Sequence[Sequence[Result]]]
) -> Estimate:
    """What Mixup changes, with the variance over seeds of the ensemble or of all in its regime."""
    values = {name: [quantity.values(some) for some in both] for name, both in by_ensemble.items()}
    variance = SeedVariance.of_ensemble(values[ensemble], [each for both in values.values() for each in both])
    none, mixup = (estimate(some, quantity, variance) for some in by_ensemble[ensemble])
    return mixup - none


def _crossing(points: Sequence[Point]) -> Crossing:
    return find_crossing([p.error for p in points], [p.effects["ece"].interval for p in points])


def _sentences(series: dict[str, list[Point]]) -> Iterator[str]:
    """How the effect moves along one data set, from its smallest error to its largest; or what it is."""
    rising, falling = [], []
    for dataset in dict.fromkeys(p.dataset for some in series.values() for p in some):
        texts, single = [], []
        for ensemble, points in series.items():
            some = [p for p in points if p.dataset == dataset]
            name = ENSEMBLES[ensemble].short
            if len(some) > 1:
                errors = f"error {100 * some[0].error:.1f} to {100 * some[-1].error:.1f} %"
                effect = f"{_signed(some[0])} to {_signed(some[-1])} points"
                texts.append(f"{effect} with {name} ({errors})")
            elif some:
                single.append(f"{_signed(some[0])} points with {name} (error {100 * some[0].error:.1f} %)")
        if texts:
            of = [[p for p in points if p.dataset == dataset] for points in series.values()]
            changes = [
                some[-1].effects["ece"].value - some[0].effects["ece"].value for some in of if len(some) > 1
            ]
            if min(changes) > 0:
                rising.append(dataset)
            elif max(changes) < 0:
                falling.append(dataset)
            yield f"On {dataset}, as the error grows, Mixup's effect on ECE goes from {', '.join(texts)}."
        if single:
            yield f"On {dataset} Mixup's effect on ECE is {', '.join(single)}."
    if rising and falling:
        yield (
            f"Within {listed(rising)} the effect rises with the error, within {listed(falling)} it falls: "
            "the error alone does not decide."
        )


def _gap_sentences(points: Sequence[Point]) -> Iterator[str]:
    """What Mixup adds to the gap; which gaps without it go with a higher ECE, and which with a lower one."""
    added = [p.mixup_gap - p.gap for p in points]
    yield f"Mixup adds {100 * min(added):+.1f} to {100 * max(added):+.1f} points to the pool's gap."
    raised = [p for p in points if p.effects["ece"].interval.low > 0]
    lowered = [p for p in points if p.effects["ece"].interval.high < 0]
    if not raised or not lowered:
        return
    least, most = min(p.gap for p in raised), max(p.gap for p in lowered)
    if most < least:
        where = " and ".join(dict.fromkeys(p.dataset for p in lowered))
        rest = len(points) - len(raised) - len(lowered)
        neither = f"; of {rest} more its effect is within noise" if rest else ""
        yield (
            f"It raises the ECE of {len(raised)} pool{'s' * (len(raised) > 1)}, whose gap without mixing is "
            f"{100 * least:+.1f} or more, and lowers that of {len(lowered)}, all on {where}, whose gap is "
            f"{100 * most:+.1f} or less{neither}."
        )
    else:
        yield "The gap without mixing does not tell the two sides apart."
    lower = [p.gap < -(p.mixup_gap - p.gap) / 2 for p in points]
    alike = sum(low == (p.effects["ece"].interval.value < 0) for low, p in zip(lower, points, strict=True))
    excess = statistics.median(x for p in points for x in p.excess)
    yield (
        f"This is arithmetic: ECE is close to the absolute gap here (the median difference is "
        f"{100 * excess:.2f} points), so it falls where a pool is over-confident by more than half of what "
        f"Mixup adds, and rises elsewhere ({alike} of {len(points)} pools, noise not counted). So those who "
        "see Mixup help an ensemble and those who see it harm one can both be right."
    )


def _signed(point: Point) -> str:
    return f"{100 * point.effects['ece'].value:+.1f}"


def _effect(point: Point, name: str, x: float) -> Effect:
    interval = point.effects[name].interval
    return Effect(x, interval.value, interval.low, interval.high, point.dataset)


def _crossings_table(series: dict[str, list[Point]], crossings: dict[str, Crossing]) -> Table:
    rows = []
    for ensemble, points in series.items():
        intervals = [p.effects["ece"].interval for p in points]
        counts = (len(points), sum(i.low > 0 for i in intervals), sum(i.high < 0 for i in intervals))
        public = Cell(f"about {100 * PUBLIC[ensemble]:g}", muted=True)
        cells = [Cell(str(count), count) for count in counts]
        crossing_cell = Cell(_crossing_text(crossings[ensemble]))
        rows.append((Cell(ENSEMBLES[ensemble].long), *cells, crossing_cell, public))
    caption = "Error of the pool, %, at which Mixup ceases to raise its ECE and begins to lower it"
    columns = ("ensemble", "regimes", "ECE raised", "ECE lowered", "crossing", "rule of thumb")
    return Table(caption, columns, tuple(rows))


def _crossing_text(found: Crossing) -> str:
    """
    >>> _crossing_text(Crossing(0.07, 0.28, 0.153, (0.1, 0.3)))
    'between 7.0 and 28.0, at 10.0 no effect beyond noise (interpolated over the log of the error: 15.3)'
    >>> _crossing_text(Crossing(0.07, None, None))
    'above 7.0, if anywhere'
    >>> _crossing_text(Crossing(0.07, None, None, (0.28,)))
    'above 7.0; at 28.0 no effect beyond noise'
    """
    last, first = (None if x is None else f"{100 * x:.1f}" for x in (found.last, found.first))
    if found.value is not None:
        within = [f"{100 * x:.1f}" for x in found.unclear if (found.last or 0) < x < (found.first or 0)]
        unclear = f", at {' and '.join(within)} no effect beyond noise" if within else ""
        value = f"interpolated over the log of the error: {100 * found.value:.1f}"
        return f"between {last} and {first}{unclear} ({value})"
    if last and first:
        return f"none: raised at {last}, lowered at {first}"
    if last and (beyond := [x for x in found.unclear if found.last and x > found.last]):
        return f"above {last}; at {100 * beyond[0]:.1f} no effect beyond noise"
    return f"above {last}, if anywhere" if last else f"below {first}, if anywhere" if first else "unclear"


def _points_table(points: Sequence[Point]) -> Table:
    rows = []
    for p in points:
        size = Cell("all" if p.train_size is None else f"{p.train_size:,}", p.train_size or math.inf)
        cells = [
            Cell(interval_text(p.effects[name].interval, signed=True), p.effects[name].value)
            for name in ("ece", "accuracy")
        ]
        error = Cell(f"{100 * p.error:.2f}", p.error)
        gaps = [Cell(f"{100 * gap:+.2f}", gap) for gap in (p.gap, p.mixup_gap)]
        seeds = Cell(str(p.effects["ece"].seeds), p.effects["ece"].seeds)
        rows.append((Cell(p.dataset), size, Cell(ENSEMBLES[p.ensemble].short), error, *gaps, *cells, seeds))
    heads = (
        "error without %",
        "gap without",
        "gap with Mixup",
        "ECE: Mixup - none",
        "Acc: Mixup - none",
        "seeds",
    )
    columns = ("data set", "training images", "ensemble", *heads)
    return Table("What Mixup changes in each regime, points with 95 % intervals", columns, tuple(rows))
