"""Error and ECE under corruption, by severity."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
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
    thin = {"color": INK, "linewidth": 0.6}
    style: Any = {
        "boxprops": {"facecolor": shade, "edgecolor": INK, "linewidth": 0.6},
        "medianprops": {"color": "white", "linewidth": 1.6},
        "flierprops": {"marker": ".", "markersize": 3, "markerfacecolor": shade, "markeredgecolor": shade},
        **{"whiskerprops": thin, "capprops": thin, "patch_artist": True, "manage_ticks": False},
    }
    places = [severity + offset for severity, some in values.items() if some]
    axes.boxplot([some for some in values.values() if some], positions=places, widths=0.85 * width, **style)
