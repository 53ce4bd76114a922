"""The reliability diagram: the paper's variant, accuracy - confidence, and the standard one, accuracy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.special import betaincinv

from calmix.errors import InputError
from calmix.predictions import Predictions
from calmix.report.diagram import diagram_handles, diagram_of, draw_diagram
from calmix.report.style import GREY, INK, NOTE, add_legend, figure, plain, styled
from calmix.runs.influence import BinnedLabels, TopLabels

Array = npt.NDArray[np.float64]
MIN_EXAMPLES, MIN_SHARE = 10, 0.002  # bins with fewer examples, or a smaller share of them, have no point
LEVEL = 0.95
CLEAR_MEMBERS = 8  # more thin lines than these are drawn fainter
MAX_COLUMNS = 3  # more panels than these are drawn in two columns


@dataclass(frozen=True, eq=False)
class Curve:
    """Predictions to draw in one colour; several are of different seeds, and their examples share the bins.

    With `members` each member is drawn thin beside the pool.
    """

    label: str
    seeds: Sequence[TopLabels | BinnedLabels]
    colour: str
    members: bool = False


def reliability_figure(
    panels: Mapping[str, Sequence[Curve]], *, difference: bool = True, title: str = ""
) -> Figure:
    """Accuracy - confidence against confidence in 15 bins: above 0 is under-confident. Below, the share of
    examples in each bin.

    The pool is thick. Its band is the range over seeds, of a single one the 95 % interval of each bin's
    accuracy (Clopper and Pearson). With `difference=False` accuracy is drawn against confidence, and the
    diagonal is calibrated.

    >>> import torch
    >>> predictions = Predictions(torch.randn(4, 100, 3), torch.arange(100) % 3)
    >>> curve = Curve("Mixup", [TopLabels.of(predictions)], "#0072B2")
    >>> [axes.get_ylabel().splitlines()[0] for axes in reliability_figure({"DE": [curve]}).axes]
    ['accuracy - confidence', 'share']
    """
    if not panels or not all(panels.values()):
        raise InputError("panels has nothing to draw: give {title: [Curve, ...]} with a curve for each title")
    for curve in (curve for curves in panels.values() for curve in curves):
        if not curve.seeds:
            raise InputError(f"the curve {curve.label!r} has no predictions: give those of one seed or more")
    with styled():
        columns = len(panels) if len(panels) <= MAX_COLUMNS else 2
        rows = -(-len(panels) // columns)
        size = 0.9 + 3.3 * columns, 4.2 * rows
        drawing, axes = figure(*size, 2 * rows, columns, title=title, share=True, height_ratios=[3, 1] * rows)
        places = np.arange(rows * columns)
        tops, bottoms = (places + columns * (places // columns + below) for below in (0, 1))
        for top, bottom, (name, curves) in zip(tops, bottoms, panels.items(), strict=False):
            for curve in curves:
                points = _draw(axes[top], curve, difference)
                edges = np.linspace(0, 1, len(points.share) + 1)
                axes[bottom].stairs(points.share, edges, color=curve.colour, linewidth=1.4)
            _finish(axes[top], difference)
            axes[top].set_title(plain(name))
            axes[bottom].set_xlabel("confidence")
            axes[bottom].tick_params(labelbottom=True)
        for top, bottom in zip(tops[::columns], bottoms[::columns], strict=True):
            if difference:
                low, high = axes[top].get_ylim()  # of all panels of the row, their bands included
                axes[top].set_ylim(min(low, -0.05), max(high, 0.05))
            axes[top].set_ylabel(_ylabel(difference))
            axes[bottom].set_ylabel("share")
            axes[bottom].set_ylim(bottom=0)
        for empty in (*tops[len(panels) :], *bottoms[len(panels) :]):
            axes[empty].remove()
        add_legend(drawing, _handles([curve for curves in panels.values() for curve in curves]))
    return drawing


def plot_reliability(
    predictions: Predictions, ax: Axes | None = None, members: bool = True, *, positive: bool = False
) -> Axes:
    """Accuracy against confidence in 15 bins; above the diagonal is under-confident.

    Each bin has the 95 % interval of its accuracy (Clopper and Pearson), and fades where it has fewer than 30
    examples. The band around the diagonal is where a calibrated model's bins would be in 95 % of cases, given
    these confidences (the consistency band). The curve is the isotonic regression of hits on confidences,
    which needs no bins (CORP). Thin lines are members. With `positive`, of two classes, the rate of y = 1
    against P(y = 1), which shows an error of the probability itself.

    Draws on `ax`, or on a new pyplot figure.
    """
    diagram = diagram_of(predictions, members=members, positive=positive)
    with styled():
        if ax is None:
            from matplotlib import pyplot  # a window and a global list of figures, only where they are wanted

            _, ax = pyplot.subplots(figsize=(4.4, 4.6), layout="constrained")
        draw_diagram(ax, diagram, positive=positive)
        handles = diagram_handles([diagram])
        ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderpad=0)
    return ax


class _Points(NamedTuple):
    """Of each bin that is drawn: mean confidence, height, and its band; and the share of every bin."""

    confidence: Array
    height: Array
    low: Array
    high: Array
    share: Array


def _draw(axes: Axes, curve: Curve, difference: bool) -> _Points:
    """The pool with its band, over its members; returns the pool's points."""
    if _drawn_members(curve):
        count = min(len(top.hit) - 1 for top in curve.seeds)
        faint = 0.6 * min(1.0, CLEAR_MEMBERS / count)
        for k in range(1, 1 + count):
            member = _points(curve.seeds, k, difference)
            axes.plot(member.confidence, member.height, color=curve.colour, linewidth=0.7, alpha=faint)
    points = _points(curve.seeds, 0, difference)
    band: Any = {"color": curve.colour, "alpha": 0.18}
    if len(points.height) > 1:
        axes.fill_between(points.confidence, points.low, points.high, linewidth=0, **band)
    else:
        axes.vlines(points.confidence, points.low, points.high, linewidth=5, **band)
    line: Any = {"linewidth": 2.2, "markersize": 3.5, "clip_on": False}  # no half marks at accuracy 1
    axes.plot(points.confidence, points.height, "o-", color=curve.colour, **line)
    return points


def _drawn_members(curve: Curve) -> bool:
    return curve.members and all(len(top.hit) > 2 for top in curve.seeds)


def _points(seeds: Sequence[TopLabels | BinnedLabels], row: int, difference: bool) -> _Points:
    """Of the pool (row 0) or of a member."""
    sums = np.stack([top.bin_sums(row) for top in seeds])
    counts, hit_sums, confidence_sums = sums.transpose(1, 0, 2)
    with np.errstate(invalid="ignore"):
        accuracies, confidences = hit_sums / counts, confidence_sums / counts
    count = counts.sum(0)
    drawn = count >= max(MIN_EXAMPLES, MIN_SHARE * count.sum())
    drawn = drawn if drawn.any() else count > 0
    share, count, counts = count / count.sum(), count[drawn], counts[:, drawn]
    confidence = np.nansum(counts * confidences[:, drawn], 0) / count
    hits = np.nansum(counts * accuracies[:, drawn], 0)
    if len(seeds) > 1:
        each = (accuracies - confidences if difference else accuracies)[:, drawn]
        low, high = np.nanmin(each, 0), np.nanmax(each, 0)
    else:
        shift = confidence if difference else 0
        low, high = (end - shift for end in clopper_pearson(hits, count))
    return _Points(confidence, hits / count - (confidence if difference else 0), low, high, share)


def clopper_pearson(hits: Array, count: Array, level: float = LEVEL) -> tuple[Array, Array]:
    """Exact interval of rates hits / count.

    >>> low, high = clopper_pearson(np.array([0.0]), np.array([10.0]))
    >>> low.tolist(), round(float(high[0]), 3)
    ([0.0], 0.308)
    """
    tail = (1 - level) / 2
    low = betaincinv(hits, count - hits + 1, tail)
    high = betaincinv(hits + 1, count - hits, 1 - tail)
    return np.where(hits > 0, low, 0.0), np.where(hits < count, high, 1.0)


def _finish(axes: Axes, difference: bool) -> None:
    axes.set_xlim(0, 1)
    if difference:
        axes.axhline(0, color=INK, linewidth=1)
        return
    axes.set_ylim(0, 1)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1)


def _ylabel(difference: bool) -> str:
    return "accuracy - confidence\n← over-confident · under-confident →" if difference else "accuracy"


def _handles(curves: Sequence[Curve]) -> list[Any]:
    named = {curve.label: curve.colour for curve in curves}
    handles: list[Any] = [
        Line2D([], [], color=shade, linewidth=2.2, marker="o", markersize=3.5, label=label)
        for label, shade in named.items()
    ]
    if any(_drawn_members(curve) for curve in curves):
        handles.append(Line2D([], [], color=NOTE, linewidth=0.7, label="a member"))
    several = {len(curve.seeds) > 1 for curve in curves}
    texts = {False: f"{100 * LEVEL:g} % interval", True: "range over seeds"}
    text = " or ".join(texts[kind] for kind in sorted(several))
    return [*handles, Patch(color=GREY, alpha=0.3, linewidth=0, label=text)]
