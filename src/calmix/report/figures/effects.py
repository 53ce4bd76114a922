"""Effects against a number of the runs: points with intervals, and where they change their sign."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullFormatter
from matplotlib.transforms import offset_copy

from calmix.errors import InputError
from calmix.report.style import INK, NOTE, SPARE, add_legend, figure, plain, styled
from calmix.study.crossing import Crossing

MARKERS = "os^Dvp*X"
OFFSET = 6.0  # points between the intervals of two series


@dataclass(frozen=True)
class Effect:
    """A point: x (a fraction), the effect in points with the ends of its interval, and its kind of mark."""

    x: float
    value: float
    low: float
    high: float
    mark: str = ""


@dataclass(frozen=True)
class EffectPanel:
    """Effects by series against what `xlabel` names, on a logarithmic axis with `log`; where they change
    their sign, and where others published that they do."""

    title: str
    xlabel: str
    series: Mapping[str, Sequence[Effect]]
    crossings: Mapping[str, Crossing] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)
    log: bool = True


def effects(panels: Sequence[EffectPanel], *, title: str = "") -> Figure:
    """Panels, one below the other, with a point for each regime, its x in per cent. Lines join the points of
    one mark along a logarithmic axis; the bar at 0 reaches from the last effect above it to the first below,
    the hollow triangle is a published crossing."""
    if not panels or not any(points for panel in panels for points in panel.series.values()):
        raise InputError("panels hold no effects to draw")
    names = list(dict.fromkeys(name for panel in panels for name in panel.series))
    points = [point for panel in panels for some in panel.series.values() for point in some]
    marks = list(dict.fromkeys(point.mark for point in points))
    shapes = {mark: MARKERS[k % len(MARKERS)] for k, mark in enumerate(marks)}
    shades = {name: SPARE[k % len(SPARE)] for k, name in enumerate(names)}
    with styled():
        drawing, axes = figure(4.5, 2.9 * len(panels), rows=len(panels), title=title)
        for axis, panel in zip(axes, panels, strict=True):
            axis.margins(y=0.12)  # what is drawn a few points below 0 is not cut off
            axis.axhline(0, color=INK, linewidth=1)
            for row, (name, some) in enumerate(panel.series.items()):
                _draw(axis, some, shades[name], shapes)
                if panel.log:
                    _draw_lines(axis, some, shades[name])
                _draw_crossing(axis, panel, name, shades[name], row - (len(panel.series) - 1) / 2)
            if panel.log:
                _set_log_axis(axis, panel)
            axis.set_title(panel.title)
            axis.set_xlabel(plain(panel.xlabel))
            axis.set_ylabel("Mixup less none, points")
        add_legend(drawing, _handles(panels, shades, shapes))
    return drawing


def _set_log_axis(axes: Axes, panel: EffectPanel) -> None:
    reach = [p.x for some in panel.series.values() for p in some] + list(panel.published.values())
    low, high = 100 * min(reach) / 1.25, 100 * max(reach) * 1.25
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = [t for t in (0.5, 1, 2, 5, 10, 20, 50, 100) if low <= t <= high]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.set_xticklabels([f"{t:g}" for t in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw(axes: Axes, points: Sequence[Effect], shade: str, shapes: Mapping[str, str]) -> None:
    for point in points:
        ends = [100 * (point.value - point.low), 100 * (point.high - point.value)]
        spread = [[end] for end in ends] if all(map(math.isfinite, ends)) else None
        look: Any = {"color": shade, "markersize": 5.5, "capsize": 2, "elinewidth": 1, "zorder": 3}
        axes.errorbar([100 * point.x], [100 * point.value], yerr=spread, fmt=shapes[point.mark], **look)


def _draw_lines(axes: Axes, points: Sequence[Effect], shade: str) -> None:
    for mark in dict.fromkeys(point.mark for point in points):
        some = sorted((100 * p.x, 100 * p.value) for p in points if p.mark == mark)
        axes.plot(*zip(*some, strict=True), color=shade, linewidth=1.3, alpha=0.8)


def _draw_crossing(axes: Axes, panel: EffectPanel, name: str, shade: str, row: float) -> None:
    """At 0, a few points above or below it, so that intervals of several series do not cover each other."""
    drawing: Any = axes.get_figure()
    place: Any = offset_copy(axes.transData, drawing, y=-OFFSET * row, units="points")
    if name in panel.published:
        look: Any = {"markersize": 7, "mfc": "white", "mew": 1.4, "zorder": 5, "transform": place}
        axes.plot([100 * panel.published[name]], [0], "v", color=shade, **look)
    crossing = panel.crossings.get(name)
    if crossing is None or crossing.value is None or crossing.last is None or crossing.first is None:
        return
    bar: Any = {"linewidth": 4, "alpha": 0.4, "solid_capstyle": "butt", "transform": place}
    axes.plot([100 * crossing.last, 100 * crossing.first], [0, 0], color=shade, **bar)
    middle: Any = {"markersize": 9, "mew": 2.2, "zorder": 4, "transform": place}
    axes.plot([100 * crossing.value], [0], "|", color=shade, **middle)


def _handles(
    panels: Sequence[EffectPanel], shades: Mapping[str, str], shapes: Mapping[str, str]
) -> list[Any]:
    handles: list[Any] = [Line2D([], [], color=s, linewidth=2, label=name) for name, s in shades.items()]
    handles += [
        Line2D([], [], color=NOTE, marker=shape, linestyle="none", markersize=5.5, label=plain(mark))
        for mark, shape in shapes.items()
        if mark
    ]
    if any(found.value is not None for panel in panels for found in panel.crossings.values()):
        look: Any = {"color": NOTE, "linewidth": 5, "alpha": 0.35}
        handles.append(Line2D([], [], label="where the sign changes", **look))
        tick: Any = {"marker": "|", "linestyle": "none", "markersize": 9, "mew": 2.2}
        handles.append(Line2D([], [], color=NOTE, label="a line between the two", **tick))
    if any(panel.published for panel in panels):
        hollow: Any = {"marker": "v", "linestyle": "none", "mfc": "white", "mew": 1.4, "markersize": 7}
        handles.append(Line2D([], [], color=NOTE, label="by the rule of thumb", **hollow))
    return handles
