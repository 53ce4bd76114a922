"""Numbers of a pool against the number of its members, with a law drawn through them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from calmix.errors import InputError
from calmix.report.style import INK, NOTE, add_legend, figure, styled
from calmix.study.estimates import Estimate
from calmix.study.quantities import Quantity
from calmix.study.subsets import CompoundingLaw


@dataclass(frozen=True, eq=False)
class SizeCurve:
    """Estimates for sizes 1, 2, ... in one colour; `law` is fitted to all of them, `forecast` to the first
    two."""

    colour: str
    estimates: Sequence[Estimate]
    law: CompoundingLaw | None = None
    forecast: CompoundingLaw | None = None


def size_curves(panels: Mapping[Quantity, Mapping[str, SizeCurve]], *, title: str = "") -> Figure:
    """A panel for each quantity, a line for each label: its value with the interval over seeds against the
    number of members; dashed what the law forecasts from one and two members."""
    if not panels or not all(panels.values()):
        raise InputError("panels hold no curves to draw")
    with styled():
        drawing, axes = figure(0.6 + 3.6 * len(panels), 3.2, columns=len(panels), title=title)
        handles: dict[str, Any] = {}
        for axis, (quantity, curves) in zip(axes, panels.items(), strict=True):
            most = max(len(curve.estimates) for curve in curves.values())
            for place, (label, curve) in enumerate(curves.items()):
                sizes = np.arange(1, len(curve.estimates) + 1)
                values = np.array([quantity.factor * e.value for e in curve.estimates])
                widths = np.array([quantity.factor * e.half_width for e in curve.estimates])
                known = np.isfinite(widths)
                shift = 0.05 * (place - (len(curves) - 1) / 2)
                look: Any = {"color": curve.colour, "markersize": 4.5, "capsize": 2}
                axis.errorbar(
                    sizes + shift, values, yerr=np.where(known, widths, 0.0), fmt="o-", linewidth=1.2, **look
                )
                if curve.forecast is not None:
                    fine = np.linspace(1, most, 100)
                    heights = [quantity.factor * curve.forecast(m) for m in fine]
                    axis.plot(fine, heights, "--", color=curve.colour, linewidth=1.2, alpha=0.8)
                handles[label] = Line2D([], [], color=curve.colour, marker="o", markersize=4.5, label=label)
            axis.set_title(quantity.heading)
            axis.set_xlabel("members")
            axis.set_xticks(range(1, most + 1))
            axis.set_xlim(0.6, most + 0.4)
            if quantity.better == "zero":
                axis.axhline(0, color=INK, linewidth=1)
            else:
                axis.set_ylim(bottom=0)
        more = []
        if any(c.forecast for curves in panels.values() for c in curves.values()):
            more = [Line2D([], [], color=NOTE, linestyle="--", label="forecast from one and two members")]
        add_legend(drawing, [*handles.values(), *more])
    return drawing
