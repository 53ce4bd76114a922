"""When does Mixup harm an ensemble? Its effect against the error of the same ensemble without it."""

import math
from collections.abc import Iterator, Sequence

from calmix.paper.sheet import Item, Sheet, Shown, Variant
from calmix.report.figures.effects import Effect, EffectPanel, effects, is_bounded
from calmix.report.tables import Cell, Table, interval_text
from calmix.runs.recipe import ENSEMBLES
from calmix.study import quantities as q
from calmix.study.crossing import MIN_POINTS, Crossing, find_crossing
from calmix.study.estimates import Estimate, NotRunError, SeedVariance, estimate
from calmix.study.quantities import Quantity
from calmix.study.results import Result

# Data set: numbers of training images; None is the preset's own.
REGIMES: dict[str, tuple[int | None, ...]] = {
    "mnist": (250, 500, 1000, 2000, 4000),
    "fashion-mnist": (None,),
    "cifar10": (None,),
}
DIGITS, SMOKE = (60, 120, 250, 500), (40, 80, 120)
THREE = ("batch", "mc", "deep")
PUBLIC = {"batch": 0.08, "mc": 0.12, "deep": 0.25}  # of published tables: error at which ECE is unchanged


def _variants(dataset: str, scale: str) -> list[Variant]:
    """MNIST, Fashion-MNIST and CIFAR-10 whatever the data set asked for; the embedded digits on their own."""
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
    """Does Mixup worsen every ensemble's calibration, or only that of accurate ones? Each point is a regime:
    where a line crosses 0, Mixup changes nothing; left of it, on easier tasks, it raises the pool's ECE,
    right of it, where networks are over-confident, it lowers it."""
    points = list(_points(sheet))
    series = {e: [p for p in points if p.ensemble == e] for e in THREE}
    series = {e: some for e, some in series.items() if some}
    if not series:
        raise NotRunError("Mixup and none in one regime or more")
    crossings = {name: {e: _fit(some, name) for e, some in series.items()} for name in ("ece", "accuracy")}
    yield _crossings_table(series, crossings["ece"])
    yield _points_table(points)
    panels = [
        EffectPanel(
            f"effect on {quantity.title}",
            {ENSEMBLES[e].short: [_effect(p, quantity.name) for p in some] for e, some in series.items()},
            {ENSEMBLES[e].short: found for e, found in crossings[quantity.name].items() if found},
            {ENSEMBLES[e].short: PUBLIC[e] for e in series} if quantity is q.ECE else {},
        )
        for quantity in (q.ECE, q.ACCURACY)
    ]
    drawing = effects(panels, xlabel="error of the pool without mixing, %", title=sheet.subject)
    yield sheet.figure("Effect of Mixup against the error without it, with 95 % intervals", drawing)


class Point:
    """A regime: the error without mixing, and what Mixup changes."""

    def __init__(self, ensemble: str, none: Sequence[Result], mixup: Sequence[Result]) -> None:
        recipe = none[0].recipe
        self.ensemble, self.dataset, self.train_size = ensemble, recipe.dataset, recipe.train_size
        self.effects = {x.name: _difference(x, none, mixup) for x in (q.ECE, q.ACCURACY)}
        # An error of 0 has no place on a logarithmic axis: half an image is the least.
        images = none[0].summary.clean.examples if none[0].summary else 1
        self.error = max(estimate(none, q.ERROR, SeedVariance()).value, 0.5 / images)


def _points(sheet: Sheet) -> Iterator[Point]:
    for variant, none in sheet.variants.items():
        if variant.augment != "none":
            continue
        same = Variant(variant.ensemble, "mixup", variant.fields, variant.dataset)
        mixup = sheet.variants.get(same, ())
        if any(r.summary for r in none) and any(r.summary for r in mixup):
            both = [tuple(r for r in some if r.summary) for some in (none, mixup)]
            yield Point(variant.ensemble, *both)


def _difference(quantity: Quantity, none: Sequence[Result], mixup: Sequence[Result]) -> Estimate:
    variance = SeedVariance.pooled([quantity.values(none), quantity.values(mixup)])
    return estimate(mixup, quantity, variance) - estimate(none, quantity, variance)


def _fit(points: Sequence[Point], name: str) -> Crossing | None:
    """Against the logarithm of the error; None with too few regimes."""
    if len(points) < MIN_POINTS or len({p.error for p in points}) < MIN_POINTS:
        return None
    values = [p.effects[name] for p in points]
    errors = [e.half_width / 2 if math.isfinite(e.half_width) else 0.01 for e in values]
    return find_crossing([math.log(p.error) for p in points], [e.value for e in values], errors)


def _effect(point: Point, name: str) -> Effect:
    interval = point.effects[name].interval
    return Effect(point.error, interval.value, interval.low, interval.high, point.dataset)


def _crossings_table(series: dict[str, list[Point]], crossings: dict[str, Crossing | None]) -> Table:
    rows = []
    for ensemble, points in series.items():
        found = crossings[ensemble]
        text = f"fewer than {MIN_POINTS} regimes" if found is None else _crossing_text(found)
        direction = "-" if found is None else "below it" if found.slope < 0 else "above it"
        count = Cell(str(len(points)), len(points))
        public = Cell(f"about {100 * PUBLIC[ensemble]:g}", muted=True)
        rows.append((Cell(ENSEMBLES[ensemble].long), count, Cell(text), Cell(direction), public))
    caption = "Error of the pool at which Mixup leaves its ECE unchanged, %, with its 95 % interval"
    columns = ("ensemble", "regimes", "crossing", "Mixup harms", "public tables")
    return Table(caption, columns, tuple(rows))


def _crossing_text(found: Crossing) -> str:
    """
    >>> _crossing_text(Crossing(math.log(0.08), math.log(0.05), math.inf, 0, -1))
    '8.0 [5.0, none]'
    """
    if not math.isfinite(found.value) or not is_bounded(found):
        return "none: the line may not cross 0"
    value, low, high = (_percent(x) for x in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]"


def _percent(log_error: float) -> str:
    if log_error == -math.inf:
        return "0"
    return "none" if log_error > 0 else f"{100 * math.exp(log_error):.1f}"


def _points_table(points: Sequence[Point]) -> Table:
    rows = []
    for p in points:
        size = Cell("all" if p.train_size is None else f"{p.train_size:,}", p.train_size or math.inf)
        cells = [
            Cell(interval_text(p.effects[name].interval, signed=True), p.effects[name].value)
            for name in ("ece", "accuracy")
        ]
        error = Cell(f"{100 * p.error:.2f}", p.error)
        seeds = Cell(str(p.effects["ece"].seeds), p.effects["ece"].seeds)
        rows.append((Cell(p.dataset), size, Cell(ENSEMBLES[p.ensemble].short), error, *cells, seeds))
    heads = ("error without %", "ECE: Mixup - none", "Acc: Mixup - none", "seeds")
    columns = ("data set", "training images", "ensemble", *heads)
    return Table("What Mixup changes in each regime, points with 95 % intervals", columns, tuple(rows))
