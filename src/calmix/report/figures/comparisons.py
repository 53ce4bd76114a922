"""Figures of many runs, grouped by recipe: bars, lines over a parameter, before and after a temperature.

Values are fractions; axes show them in the unit of their quantity.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator

from calmix.errors import InputError
from calmix.report import style
from calmix.report.style import INK, add_legend, figure, plain, series_colours, series_label, styled
from calmix.runs.recipe import ENSEMBLES
from calmix.study.quantities import Quantity
from calmix.study.results import Group, Result

BAR, GAP = 0.26, 0.3  # inches of a bar, and of the space between two ensembles
WIDE = 9.0  # inches
MARKERS = "os^Dvp*X"
DIAMOND: Any = {"marker": "D", "color": "white", "markeredgecolor": INK, "markersize": 4, "linestyle": "none"}


def bars(
    groups: Sequence[Group],
    quantities: Sequence[Quantity],
    members: Sequence[Quantity | None] = (),
    *,
    title: str = "",
    wide: float = WIDE,
) -> Figure:
    """A panel for each quantity, in rows of their own for each data set. A bar is the mean over seeds with
    their standard deviation, a dot a run, a diamond the mean of the quantity of the members, where one is
    given for the panel. Panels that need more than `wide` inches have further rows."""
    drawn = [group for group in groups if any(quantity.values(group.results) for quantity in quantities)]
    _need(drawn, "groups have none of the quantities " + ", ".join(q.name for q in quantities))
    shades = series_colours(groups, drawn)
    datasets = list(dict.fromkeys(group.recipe.dataset for group in drawn))
    count = max(sum(g.recipe.dataset == name for g in drawn) for name in datasets)
    ensembles = len({group.recipe.ensemble for group in drawn})
    panel_width = 0.8 + max(1.2, BAR * count + GAP * ensembles)
    rows = math.ceil(len(quantities) / max(1, wide // panel_width))
    columns = math.ceil(len(quantities) / rows)
    of_members = [*members, *[None] * (len(quantities) - len(members))]
    with styled():
        total = rows * len(datasets)
        drawing, axes = figure(
            max(3.6, panel_width * columns), 0.1 + 2.3 * total, total, columns, title=title
        )
        for place, dataset in enumerate(datasets):
            own = axes[place * rows * columns : (place + 1) * rows * columns]
            some = [group for group in drawn if group.recipe.dataset == dataset]
            for unused in own[len(quantities) :]:
                unused.remove()
            for panel, quantity, of_member in zip(own, quantities, of_members, strict=False):
                _bars_panel(panel, some, quantity, of_member, shades)
                where = f"{plain(dataset)}: " if len(datasets) > 1 else ""
                panel.set_title(where + quantity.heading)
        handles: list[Any] = [Patch(color=shade, label=label) for label, shade in shades.items()]
        if any(members):
            handles.append(Line2D([], [], **DIAMOND, label="mean of the members"))
        add_legend(drawing, handles)
    return drawing


def _bars_panel(
    panel: Axes,
    groups: Sequence[Group],
    quantity: Quantity,
    of_member: Quantity | None,
    shades: Mapping[str, str],
) -> None:
    by_ensemble = {e: [g for g in groups if g.recipe.ensemble == e] for e in ENSEMBLES}
    left, ticks = 0.0, {}
    bars: list[tuple[float, float, str]] = []  # x, height, colour
    spreads: list[tuple[float, float, float]] = []  # x, height, standard deviation
    runs: list[tuple[float, float]] = []
    diamonds: list[tuple[float, float]] = []
    for ensemble, some in by_ensemble.items():
        if not some:
            continue
        for place, group in enumerate(some):
            x = left + place * BAR
            values = [quantity.factor * value for value in quantity.values(group.results)]
            if values:
                bars.append((x, statistics.fmean(values), shades[series_label(group)]))
            if len(values) > 1:
                spreads.append((*bars[-1][:2], statistics.stdev(values)))
                runs += zip(x + np.linspace(-0.2, 0.2, len(values)) * BAR, values, strict=True)
            alone = of_member.values(group.results) if of_member else []
            if alone and group.recipe.members > 1:
                diamonds.append((x, quantity.factor * statistics.fmean(alone)))
        ticks[ENSEMBLES[ensemble].short] = left + BAR * (len(some) - 1) / 2
        left += BAR * len(some) + GAP
    if bars:  # all at once: a call for each bar takes several times as long
        places, heights, colours = zip(*bars, strict=True)
        panel.bar(places, heights, color=colours, width=0.88 * BAR)
    if spreads:
        places, heights, deviations = zip(*spreads, strict=True)
        panel.errorbar(places, heights, deviations, fmt="none", ecolor=INK, capsize=2)
        panel.plot(*zip(*runs, strict=True), ".", color=INK, markersize=3, clip_on=False, zorder=3)
    if diamonds:
        panel.plot(*zip(*diamonds, strict=True), **DIAMOND, clip_on=False, zorder=4)
    panel.set_xticks(list(ticks.values()), list(ticks))
    panel.set_xlim(-BAR - GAP / 2, left - GAP / 2)
    panel.grid(axis="x", visible=False)
    panel.axhline(0, color=INK, linewidth=0.8)


def lines(
    series: Mapping[str, Mapping[float, Sequence[Result]]],
    quantities: Sequence[Quantity],
    *,
    xlabel: str,
    title: str = "",
    levels: Mapping[str, Sequence[Result]] | None = None,
    log: bool = False,
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """Each quantity against a number of the recipe: mean over seeds with their standard deviation, a line for
    each label of `series`, {label: {x: results}}; with `log` on a logarithmic axis.

    `levels` are drawn as dotted lines: results, by label, that the number does not touch. `colours` are by
    label.
    """
    _need(quantities, "quantities is empty: name what to draw")
    xs = sorted({x for by_x in series.values() for x in by_x})
    _need(xs, "series holds no results: give {label: {x: results}}")
    with styled():
        drawing, axes = figure(0.6 + 2.9 * len(quantities), 2.7, columns=len(quantities), title=title)
        handles: dict[str, Any] = {}
        for panel, quantity in zip(axes, quantities, strict=True):
            for place, (label, by_x) in enumerate(series.items()):
                known = {x: v for x in sorted(by_x) if (v := quantity.values(by_x[x]))}
                if known:
                    means = [quantity.factor * statistics.fmean(values) for values in known.values()]
                    spreads = [quantity.factor * float(np.std(v, ddof=len(v) > 1)) for v in known.values()]
                    look: Any = {"markersize": 5, "capsize": 2, "clip_on": False, "label": label}
                    look |= {
                        "color": _shade(label, place, colours),
                        "marker": MARKERS[place % len(MARKERS)],
                    }
                    handles[label] = panel.errorbar(list(known), means, yerr=spreads, **look)
            for place, (label, results) in enumerate((levels or {}).items(), start=len(series)):
                if values := quantity.values(results):
                    shade = _shade(label, place, colours)
                    height = quantity.factor * statistics.fmean(values)
                    panel.axhline(height, color=shade, linestyle=":", linewidth=1.6)
                    handles[label] = Line2D([], [], color=shade, linestyle=":", linewidth=1.6, label=label)
            if log and xs[0] > 0:
                panel.set_xscale("log")
                panel.xaxis.set_minor_locator(NullLocator())
            panel.set_title(quantity.heading)
            panel.set_xlabel(plain(xlabel))
            if len(xs) <= 8:
                panel.set_xticks(xs, [f"{x:g}" for x in xs])
            if quantity.better == "zero":
                panel.axhline(0, color=INK, linewidth=1)
            elif quantity.better != "higher" and panel.get_ylim()[0] > 0:
                panel.set_ylim(bottom=0)
        if handles:
            add_legend(drawing, list(handles.values()))
    return drawing


def _shade(label: str, place: int, colours: Mapping[str, str] | None) -> str:
    return (colours or {}).get(label, style.SPARE[place % len(style.SPARE)])


def before_and_after(
    groups: Sequence[Group], pairs: Sequence[tuple[Quantity, Quantity]], *, title: str = ""
) -> Figure:
    """A row for each group, a panel for each pair of quantities: as it is (filled), and at a temperature that
    was fitted on validation data (hollow)."""
    drawn = [g for g in groups if any(a.values(g.results) and b.values(g.results) for a, b in pairs)]
    _need(drawn, "groups have no run with a temperature: evaluate runs that kept their validation images")
    shades = series_colours(groups)
    with styled():
        names = [plain(group.title) for group in drawn]
        width = 0.8 + 0.07 * max(map(len, names)) + 2.5 * len(pairs)
        height = 0.7 + 0.24 * len(drawn)
        drawing, axes = figure(width, height, columns=len(pairs), title=title, share=True)
        for panel, pair in zip(axes, pairs, strict=True):
            for row, group in enumerate(drawn):
                values = [[q.factor * v for v in q.values(group.results)] for q in pair]
                if not all(values):
                    continue
                start, end = map(statistics.fmean, values)
                look: Any = {"color": shades[series_label(group)], "clip_on": False, "zorder": 3}
                panel.plot([start, end], [row, row], linewidth=1.4, **look)
                panel.plot([start], [row], "o", markersize=6, **look)
                panel.plot([end], [row], "o", markersize=6, markerfacecolor="white", mew=1.4, **look)
            panel.set_title(pair[0].heading)
            panel.set_xlim(left=min(0, panel.get_xlim()[0]))
            panel.tick_params(left=False)
        axes[0].set_yticks(range(len(drawn)), names)
        axes[0].set_ylim(len(drawn) - 0.4, -0.6)
        dot: Any = {"color": style.NOTE, "linestyle": "none", "marker": "o", "markersize": 6}
        handles = [
            Line2D([], [], label="as it is", **dot),
            Line2D([], [], label="at temperature T", markerfacecolor="white", markeredgewidth=1.4, **dot),
        ]
        add_legend(drawing, handles)
    return drawing


def _need(things: Sequence[object], message: str) -> None:
    if not things:
        raise InputError(message)
