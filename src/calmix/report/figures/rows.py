"""Rows of estimates with intervals, a panel for each quantity: many methods in one picture."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from calmix.errors import InputError
from calmix.metrics import Interval
from calmix.report.style import INK, NOTE, SPARE, add_legend, figure, plain, styled

OFFSET = 0.16  # between marks of one row


@dataclass(frozen=True)
class RowMark:
    """A value with its interval in a row of a panel; `series` names its colour, `hollow` its mark, `best` is
    ringed."""

    row: str
    interval: Interval
    series: str = ""
    hollow: bool = False
    best: bool = False


def interval_rows(
    panels: Mapping[str, Sequence[RowMark]],
    *,
    title: str = "",
    colours: Mapping[str, str] | None = None,
    hollow: str = "",
    from_zero: Sequence[str] = (),
    log: bool = False,
) -> Figure:
    """A row for each name, a panel for each quantity: the value as a dot, its interval as a line.

    `colours` are by series; `hollow` says what hollow marks are; panels in `from_zero` begin at 0, with
    `log` all axes are logarithmic.
    """
    rows = list(dict.fromkeys(mark.row for marks in panels.values() for mark in marks))
    if not rows:
        raise InputError("panels hold no rows to draw")
    series = list(dict.fromkeys(mark.series for marks in panels.values() for mark in marks))
    shades = {name: SPARE[k % len(SPARE)] for k, name in enumerate(series)} | dict(colours or {})
    with styled():
        width = 0.6 + 0.07 * max(map(len, rows)) + 1.75 * len(panels)
        drawing, axes = figure(width, 0.7 + 0.25 * len(rows), columns=len(panels), title=title, share=True)
        for axis, (name, marks) in zip(axes, panels.items(), strict=True):
            for mark in marks:
                among = [s for s in series if any(m.series == s and m.row == mark.row for m in marks)]
                shift = OFFSET * (among.index(mark.series) - (len(among) - 1) / 2)
                y, low, high = rows.index(mark.row) + shift, mark.interval.low, mark.interval.high
                shade = shades[mark.series]
                if math.isfinite(low) and math.isfinite(high):
                    axis.plot([low, high], [y, y], color=shade, linewidth=1.6, clip_on=False, zorder=2)
                face = "white" if mark.hollow else shade
                dot: Any = {"color": shade, "mfc": face, "mew": 1.4, "clip_on": False, "zorder": 3}
                axis.plot([mark.interval.value], [y], "o", markersize=5.5, **dot)
                if mark.best:
                    ring: Any = {"mfc": "none", "mec": INK, "mew": 1.2, "zorder": 4, "clip_on": False}
                    axis.plot([mark.interval.value], [y], "o", markersize=11, **ring)
            axis.set_title(name)
            axis.tick_params(left=False)
            axis.margins(x=0.08)
            if log:
                axis.set_xscale("log")
            elif name in from_zero:
                axis.set_xlim(left=min(0, axis.get_xlim()[0]))
        axes[0].set_yticks(range(len(rows)), [plain(row) for row in rows])
        axes[0].set_ylim(len(rows) - 0.4, -0.6)
        handles: list[Any] = [
            Line2D([], [], color=shades[name], marker="o", linewidth=1.6, label=name)
            for name in series
            if name
        ]
        dot = {"color": NOTE, "linestyle": "none", "marker": "o"}
        if hollow:
            handles.append(Line2D([], [], mfc="white", mew=1.4, markersize=5.5, label=hollow, **dot))
        if any(mark.best for marks in panels.values() for mark in marks):
            ring = {"mfc": "none", "mec": INK, "mew": 1.2, "markersize": 11}
            handles.append(Line2D([], [], linestyle="none", marker="o", label="the best mean", **ring))
        if handles:
            add_legend(drawing, handles)
    return drawing
