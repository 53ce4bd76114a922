"""How much is noise? The spread over seeds of every quantity."""

import math
from collections.abc import Mapping

from scipy.special import gammaincinv, stdtrit

from calmix.metrics import Interval
from calmix.paper.sheet import Item, Sheet, Shown, cross
from calmix.report.figures.rows import RowMark, interval_rows
from calmix.report.tables import Cell, Table, interval_text
from calmix.report.words import listed
from calmix.runs.recipe import ENSEMBLES
from calmix.study import quantities as q
from calmix.study.estimates import LEVEL, NotRunError, SeedVariance
from calmix.study.quantities import Quantity

THREE, MIXED = ("batch", "mc", "deep"), ("none", "mixup", "camixup")
QUANTITIES = (
    *(q.ACCURACY, q.ECE, q.GAP, q.DCE, q.MEMBER_ECE, q.SCALED_ECE, q.NLL),
    *(q.CORRUPTED_ACCURACY, q.CORRUPTED_ECE, q.CORRUPTED_DCE, q.CORRUPTED_NLL),
)
SEEDS, SHOWN_SEEDS = (3, 5, 10), 5


@Item("The spread over seeds", cross(THREE, MIXED), corruptions=True)
def noise(sheet: Sheet) -> Shown:
    """How large must a difference be before it is more than luck of the seed? A dot is the standard deviation
    over seeds, pooled over three ways to train (none, Mixup, CAMixup), with its 95 % interval. The table adds
    the half-width of the 95 % interval of a difference of two methods with so many seeds each, for the
    noisiest ensemble and without the noise of the test images: a true difference of that size is found
    every second time."""
    if not any(len(group.results) > 1 for group in sheet.groups()):
        raise NotRunError("two seeds or more")
    for one in sheet.each():
        spreads = {
            quantity: {e: spread for e in THREE if (spread := _spread(one, quantity, e)).degrees}
            for quantity in QUANTITIES
        }
        spreads = {quantity: some for quantity, some in spreads.items() if some}
        if not spreads:
            continue
        yield _sentence(one, spreads)
        yield _table(one.regime.dataset, spreads)
        marks = [
            RowMark(_heading(quantity), _interval(spread, quantity), ENSEMBLES[ensemble].short)
            for quantity, some in spreads.items()
            for ensemble, spread in some.items()
            if spread.variance > 0
        ]
        if not marks:
            continue
        drawing = interval_rows({"standard deviation over seeds": marks}, title=one.subject, log=True)
        yield one.figure("Standard deviation over seeds with its 95 % interval", drawing)


def _spread(sheet: Sheet, quantity: Quantity, ensemble: str) -> SeedVariance:
    values = [quantity.values(sheet.regime.results.get((ensemble, augment), ())) for augment in MIXED]
    return SeedVariance.pooled(values)


def _heading(quantity: Quantity) -> str:
    unit = {"percent": "points", "points": "points", "number": "hundredths"}[quantity.unit]
    return f"{quantity.title}, {unit}"


def _interval(spread: SeedVariance, quantity: Quantity) -> Interval:
    """Of the standard deviation, in points; of NLL in hundredths."""
    low, high = (
        100 * math.sqrt(spread.degrees * spread.variance / (2 * gammaincinv(spread.degrees / 2, p)))
        for p in ((1 + LEVEL) / 2, (1 - LEVEL) / 2)
    )
    return Interval(100 * math.sqrt(spread.variance), low, high)


def _sentence(sheet: Sheet, spreads: dict[Quantity, dict[str, SeedVariance]]) -> str:
    """What difference of accuracy and ECE, clean and under corruption, stands out, and their spread."""
    most = max(len(group.results) for group in sheet.groups())
    fewer = "" if most >= SHOWN_SEEDS else f" (by the spread of {most})"
    texts, differences = [], []
    for quantity in (q.ACCURACY, q.ECE, q.CORRUPTED_ACCURACY, q.CORRUPTED_ECE):
        some = spreads.get(quantity, {})
        values = [f"{100 * math.sqrt(s.variance):.2f} with {ENSEMBLES[e].short}" for e, s in some.items()]
        if values:
            texts.append(f"{quantity.title} {', '.join(values)}")
            differences.append(f"{_half_width(some, SHOWN_SEEDS):.2f} of {quantity.title}")
    if not texts:
        return ""
    return (
        f"On {sheet.regime.dataset} a difference of two methods with {SHOWN_SEEDS} seeds each{fewer} stands "
        f"out, with the noisiest ensemble, above {listed(differences)}, in points. The standard deviation "
        f"over seeds is: {'; '.join(texts)}."
    )


def _table(dataset: str, spreads: dict[Quantity, dict[str, SeedVariance]]) -> Table:
    present = [e for e in THREE if any(e in some for some in spreads.values())]
    rows = []
    for quantity, some in spreads.items():
        cells = [
            Cell(interval_text(_interval(some[e], quantity), factor=1), some[e].variance)
            if e in some
            else Cell("-")
            for e in present
        ]
        widths = [_half_width(some, seeds) for seeds in SEEDS]
        shown = [Cell(f"{width:.2f}", width) for width in widths]
        rows.append((Cell(_heading(quantity)), *cells, *shown))
    names = [ENSEMBLES[e].short for e in present]
    columns = ("quantity", *names, *(f"half-width, {seeds} seeds" for seeds in SEEDS))
    caption = f"{dataset}: standard deviation over seeds, and the half-width of the interval of a difference"
    return Table(caption, columns, tuple(rows))


def _half_width(spreads: Mapping[str, SeedVariance], seeds: int) -> float:
    """Half the width of the 95 % interval of a difference of two means, for the noisiest ensemble."""
    variance = max(spread.variance for spread in spreads.values())
    quantile = float(stdtrit(2 * (seeds - 1), (1 + LEVEL) / 2))
    return 100 * quantile * math.sqrt(2 * variance / seeds)
