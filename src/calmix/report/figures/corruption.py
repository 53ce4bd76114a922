"""Error and ECE under corruption, by severity."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cbook import boxplot_stats
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from calmix.corruptions import CORRUPTIONS, SEVERITIES
from calmix.errors import InputError
from calmix.report.style import INK, add_legend, figure, series_colours, series_label, styled
from calmix.runs.recipe import ENSEMBLES
from calmix.runs.summary import PoolScores
from calmix.study.results import Group

ROWS: dict[str, Callable[[PoolScores], float]] = {
    "error %": lambda pool: 100 * (1 - pool.accuracy),
    "ECE %": lambda pool: 100 * pool.ece,
}
WIDTH = 0.8  # of the boxes of a severity, in its units


def severity_boxes(groups: Sequence[Group], *, title: str = "") -> Figure:
    """Error and ECE at each severity, a column for each ensemble: a box over the benchmark's types of
    corruption and the seeds, its line the median; at 0 the mean on the clean test set."""
    drawn = [group for group in groups if any(summary.corrupted for summary in group.summaries)]
    if not drawn:
        raise InputError("groups have no run with corrupted test sets: evaluate one with corruptions=True")
    shades = series_colours(groups, drawn)
    ensembles = [e for e in ENSEMBLES if any(group.recipe.ensemble == e for group in drawn)]
    columns = [[group for group in drawn if group.recipe.ensemble == e] for e in ensembles]
    with styled():
        each = 1.6 + 0.55 * max(map(len, columns))
        count = len(columns)
        drawing, axes = figure(max(3.8, 0.7 + each * count), 4.6, 2, count, title=title, share=True)
        for row, (label, number) in enumerate(ROWS.items()):
            panels = axes[row * count : (row + 1) * count]
            for panel, some in zip(panels, columns, strict=True):
                width = WIDTH / len(some)
                for place, group in enumerate(some):
                    offset = (place + 0.5) * width - WIDTH / 2
                    _boxes(panel, group, number, offset, width, shades[series_label(group)])
                panel.set_xticks([0, *SEVERITIES], ["clean", *map(str, SEVERITIES)])
                panel.set_xlim(-0.6, max(SEVERITIES) + 0.6)
                panel.grid(axis="x", visible=False)
            panels[0].set_ylabel(label)
            panels[0].set_ylim(bottom=0)
        for ensemble, top, bottom in zip(ensembles, axes, axes[count:], strict=False):
            top.set_title(ENSEMBLES[ensemble].long)
            bottom.set_xlabel("severity")
        add_legend(drawing, [Patch(color=shade, label=label) for label, shade in shades.items()])
    return drawing


def _boxes(
    axes: Axes, group: Group, number: Callable[[PoolScores], float], offset: float, width: float, shade: str
) -> None:
    clean = statistics.fmean(number(summary.clean.pool) for summary in group.summaries)
    axes.plot([offset], [clean], "o", color=shade, markersize=5, clip_on=False)
    values = {
        severity: [
            number(scores.pool)
            for summary in group.summaries
            for kind in CORRUPTIONS
            if (scores := summary.corrupted.get(kind, {}).get(severity))
        ]
        for severity in SEVERITIES
    }
    _draw_boxes(axes, {severity + offset: some for severity, some in values.items() if some}, width, shade)


def _draw_boxes(axes: Axes, values: Mapping[float, Sequence[float]], width: float, shade: str) -> None:
    """Box plots as matplotlib's, in three collections: its own makes seven artists for each box, which takes
    three times as long to draw."""
    half, cap = 0.85 * width / 2, 0.85 * width / 4
    boxes, lines, medians, far = [], [], [], []
    for x, box in zip(values, boxplot_stats(list(values.values())), strict=True):
        left, right, low, high = x - half, x + half, box["q1"], box["q3"]
        boxes.append([(left, low), (right, low), (right, high), (left, high)])
        for near, end in ((low, box["whislo"]), (high, box["whishi"])):
            lines += [[(x, near), (x, end)], [(x - cap, end), (x + cap, end)]]
        medians.append([(left, box["med"]), (right, box["med"])])
        far += [(x, value) for value in box["fliers"]]
    thin: Any = {"linewidths": 0.6, "zorder": 2}
    axes.add_collection(PolyCollection(boxes, facecolors=shade, edgecolors=INK, **thin))
    axes.add_collection(LineCollection(lines, colors=INK, **thin))
    axes.add_collection(LineCollection(medians, colors="white", linewidths=1.6, zorder=2.1))
    if far:
        axes.plot(*zip(*far, strict=True), ".", markersize=3, color=shade)
    axes.autoscale_view()
