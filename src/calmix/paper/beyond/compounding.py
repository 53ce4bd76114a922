"""The compounding curve: a pool's gap and ECE against the number of its members."""

import numpy as np

from calmix.paper.sheet import Item, Sheet, Shown, Variant
from calmix.report.figures.sizes import SizeCurve, size_curves
from calmix.report.style import colour
from calmix.report.tables import Cell, Table, interval_text
from calmix.report.words import listed
from calmix.runs.augmentation import parse_augmentation
from calmix.study import quantities as q
from calmix.study.estimates import Estimate, NotRunError, SeedVariance, estimate
from calmix.study.quantities import Quantity
from calmix.study.results import Result
from calmix.study.subsets import CompoundingLaw

MEMBERS, SMOKE_MEMBERS = 8, 4
METHODS = ("none", "mixup", "camixup", "camixup-by-pool")


def _variants(dataset: str, scale: str) -> list[Variant]:
    members = SMOKE_MEMBERS if scale == "smoke" else MEMBERS
    return [Variant("deep", augment, (("members", members),)) for augment in METHODS]


@Item("The compounding curve", variants=_variants)
def compounding(sheet: Sheet) -> Shown:
    """How much confidence does each further member take away? Every point is the mean over all subsets of one
    deep ensemble; a dashed line is what the law g(M) = g(1) + (g(inf) - g(1)) (1 - 1/M) forecasts from the
    means over its single members and its pairs, which two trained members alone know less well. (CAMixup by
    pool chose its classes by the gap of the whole ensemble, whatever the subset.)

    The paper says that pooling compounds Mixup's under-confidence.

    mnist: Pooling adds no more with Mixup than without: what Mixup changes is where the members start.
    """
    by_method = {
        variant.augment: [r for r in results if r.subsets is not None]
        for variant, results in sheet.variants.items()
    }
    by_method = {augment: results for augment, results in by_method.items() if results}
    if not by_method:
        raise NotRunError("a deep ensemble of several members")
    curves = {quantity: _curves(quantity, by_method) for quantity in (q.GAP, q.ECE)}
    dataset = next(iter(by_method.values()))[0].recipe.dataset
    yield {dataset: _sentence(curves[q.GAP])}
    yield _law_table(by_method, curves[q.GAP])
    titles = {
        quantity: {parse_augmentation(a).title: curve for a, curve in some.items()}
        for quantity, some in curves.items()
    }
    drawing = size_curves(titles, title=sheet.subject)
    yield sheet.figure("Gap and ECE of the pool against its members, with 95 % intervals", drawing)


def _curves(quantity: Quantity, by_method: dict[str, list[Result]]) -> dict[str, SizeCurve]:
    """Estimates for every size, with the variance over seeds that all methods share."""
    most = min(result.recipe.members for results in by_method.values() for result in results)
    sizes = [q.of_size(quantity, size) for size in range(1, most + 1)]
    variances = [SeedVariance.pooled([x.values(some) for some in by_method.values()]) for x in sizes]
    curves = {}
    for augment, results in by_method.items():
        estimates = [estimate(results, x, v) for x, v in zip(sizes, variances, strict=True)]
        law = forecast = None
        if quantity is q.GAP and most > 1:
            law = CompoundingLaw.fit(np.array([e.value for e in estimates]))
            forecast = CompoundingLaw.from_two(estimates[0].value, estimates[1].value)
        curves[augment] = SizeCurve(colour(augment), estimates, law, forecast)
    return curves


def _sentence(curves: dict[str, SizeCurve]) -> str:
    """The gap of one member and of all, what pooling adds, and how far the law's forecast is off at most."""
    ends, added, misses = [], [], []
    for augment, curve in curves.items():
        first, last = curve.estimates[0].value, curve.estimates[-1].value
        title = parse_augmentation(augment).title
        ends.append(f"{100 * first:+.2f} to {100 * last:+.2f} with {title}")
        added.append(f"{100 * (last - first):.2f} ({title})")
        if curve.forecast is not None:
            misses.append(abs(curve.forecast(len(curve.estimates)) - last))
    most = max(len(curve.estimates) for curve in curves.values())
    text = (
        f"The gap goes from one member to {most}: {', '.join(ends)}. So pooling adds {listed(added)} points."
    )
    return (
        f"{text} The law that the gap nears its limit as 1/M, fitted to one and two members, is off by at "
        f"most {100 * max(misses):.2f} points."
        if misses
        else text
    )


def _law_table(by_method: dict[str, list[Result]], curves: dict[str, SizeCurve]) -> Table:
    """The gap of several sizes, the law's limit, and how far its forecast from two members is off."""
    most = max(len(curve.estimates) for curve in curves.values())
    shown = [size for size in (1, 2, 4, 8) if size <= most]
    misses = {augment: _misses(results, most) for augment, results in by_method.items()}
    variance = SeedVariance.pooled(list(misses.values()))
    rows = []
    for augment, curve in curves.items():
        cells = [
            Cell(interval_text(e.interval, signed=True), e.value)
            for size in shown
            for e in [curve.estimates[size - 1]]
        ]
        law, forecast, values = curve.law, curve.forecast, misses[augment]
        mean, count = float(np.mean(values)), len(values)
        miss = Estimate(mean, count, variance.variance / count, variance.degrees)
        if law is None or forecast is None:
            continue
        limit, ahead = law.infinite, forecast(most)
        rows.append(
            (
                Cell(parse_augmentation(augment).title),
                *cells,
                Cell(f"{100 * limit:+.2f}", limit),
                Cell(f"{100 * ahead:+.2f}", ahead),
                Cell(interval_text(miss.interval, signed=True), mean),
            )
        )
    law_columns = ("g(inf), fitted", f"g({most}) from g(1), g(2)", "forecast - measured")
    columns = ("method", *(f"g({size})" for size in shown), *law_columns)
    return Table("Gap g of a pool of M members, points with 95 % intervals", columns, tuple(rows))


def _misses(results: list[Result], most: int) -> list[float]:
    """Of each seed: the gap of the largest pool as forecast from one and two members, less the measured."""
    gaps = [[q.of_size(q.GAP, size).of(result) or 0.0 for size in (1, 2, most)] for result in results]
    return [CompoundingLaw.from_two(one, two)(most) - measured for one, two, measured in gaps]
