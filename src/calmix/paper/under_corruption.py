"""Reliability of a deep ensemble with Mixup, clean and at two severities of corruption."""

from collections.abc import Iterator, Sequence

import numpy as np

from calmix.paper.sheet import Sheet
from calmix.report.figures import CaptionedFigure
from calmix.report.reliability import Curve, reliability_figure
from calmix.report.style import colour
from calmix.runs.influence import DRAWN_SEVERITIES, BinnedLabels, TopLabels
from calmix.study import quantities as q
from calmix.study.quantities import Quantity
from calmix.study.results import Result


def reliability_under_corruption(sheet: Sheet) -> Iterator[CaptionedFigure]:
    """A figure for each data set: the pool thick, its members thin."""
    for one in sheet.each():
        results = [r for r in one.regime.results.get(("deep", "mixup"), ()) if r.summary]
        binned = {s: [b for r in results if (b := r.binned(s)) is not None] for s in DRAWN_SEVERITIES}
        clean = [r.top_labels for r in results if r.top_labels is not None]
        if not clean or not all(binned.values()):
            continue
        panels: dict[str, Sequence[TopLabels | BinnedLabels]] = {
            f"clean\n{_errors(results, (q.ECE, q.ACE, q.SCE, q.TACE))}": clean
        }
        for severity, sums in binned.items():
            panels[f"severity {severity}\n{_errors(results, q.at_severity(severity))}"] = sums
        curves = {
            name: [Curve("pool, DE with Mixup", seeds, colour("mixup"), members=True)]
            for name, seeds in panels.items()
        }
        caption = (
            "Deep ensembles with Mixup, clean and under 15 corruptions together: the pool thick, its members "
            "thin; ECE, ACE, SCE and TACE of the pool in per cent, under corruption the mean over its types"
        )
        yield one.figure(caption, reliability_figure(curves, title=one.subject), "mixup-under-corruption")


def _errors(results: Sequence[Result], quantities: Sequence[Quantity]) -> str:
    """
    Means over seeds: `ECE 6.79  ACE 6.78  SCE 1.40  TACE 4.48`.
    """
    means = [(quantity.title, float(np.mean(quantity.values(results)))) for quantity in quantities]
    return "  ".join(f"{title} {100 * mean:.1f}" for title, mean in means)
