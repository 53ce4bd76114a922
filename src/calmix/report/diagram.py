"""Reliability diagram of one model: what is drawn, and the drawing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter
from torch import Tensor

from calmix.auditing.reliability import ReliabilityBins, reliability_bins
from calmix.errors import InputError
from calmix.metrics.binning import equal_width
from calmix.predictions import Predictions
from calmix.report.style import BLUE, GREY, INK, NOTE, VERMILION, add_legend, figure, styled

Array = npt.NDArray[np.float64]
BLOCK = 1 << 22  # logits read at a time
BINS = 15
MIN_EXAMPLES = 30  # a bin of fewer fades
FAINTEST = 0.3
CLEAR_MEMBERS = 8  # more thin lines than these are drawn fainter
LEVEL = 0.95  # of bars and band


@dataclass(frozen=True, eq=False)
class Diagram:
    """The bins of the pool; its isotonic regression (CORP) as corners (K, 2); of each member (M, 2, bins)
    confidence and accuracy, nan where it has no example."""

    bins: ReliabilityBins
    corners: Array | None = None
    members: Array | None = None


def diagram_of(predictions: Predictions, *, members: bool = True, positive: bool = False) -> Diagram:
    """The diagram of the top label, or with `positive` of P(y = 1) of two classes, read in blocks."""
    confidence, hit = _outcomes(predictions, members=members, positive=positive)
    lines = None
    if len(confidence) > 2:
        lines = np.stack([_binned(c, h) for c, h in zip(confidence[1:], hit[1:], strict=True)])
    bins = reliability_bins(confidence[0], hit[0])
    return Diagram(bins, isotonic_corners(confidence[0].numpy(), hit[0].numpy()), lines)


def _outcomes(predictions: Predictions, *, members: bool, positive: bool) -> tuple[Tensor, Tensor]:
    """Confidence and hit (1 + M, N) in float64: of the pool, then of each member where they are asked for."""
    logits, labels = predictions.logits, predictions.known_labels
    if positive and logits.shape[2] != 2:
        raise InputError(f"positive=True needs two classes, and the predictions have {logits.shape[2]}")
    count, examples, classes = logits.shape
    rows = 1 + count if members else 1
    confidence, hit = torch.empty(2, rows, examples, dtype=torch.float64)
    step = max(1, BLOCK // (count * classes))
    for start in range(0, examples, step):
        part = slice(start, start + step)
        probs = logits[:, part].double().softmax(-1)
        for row in range(rows):
            some = probs.mean(0) if row == 0 else probs[row - 1]
            if positive:
                confidence[row, part], hit[row, part] = some[:, 1], labels[part].double()
            else:
                top = some.max(-1)
                confidence[row, part], hit[row, part] = top.values, (top.indices == labels[part]).double()
    return confidence.clamp_(0, 1), hit


def _binned(confidence: Tensor, hit: Tensor) -> Array:
    cell = equal_width(BINS)(confidence[:, None], False)[:, 0].long()
    count, *sums = (cell.bincount(part, minlength=BINS) for part in (torch.ones_like(hit), confidence, hit))
    return np.stack([(part / count).numpy() for part in sums])


def isotonic_corners(confidence: Array, hit: Array) -> Array:
    """Isotonic regression of hits on confidences, no bins: the first and last confidence of every level.

    The CORP diagram of Dimitriadis, Gneiting and Jordan (2021), a calibrated model's is near the diagonal.

    >>> isotonic_corners(np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.0, 1.0, 0.0, 1.0])).tolist()
    [[0.2, 0.0], [0.4, 0.5], [0.6, 0.5], [0.8, 1.0]]
    """
    from scipy.optimize import isotonic_regression  # loaded when first used

    values, level, size = np.unique(confidence, return_inverse=True, return_counts=True)
    rate = np.bincount(level, hit) / size
    fitted = isotonic_regression(rate, weights=size).x
    changes = np.diff(fitted) > 0
    kept = np.r_[True, changes] | np.r_[changes, True]
    return np.stack([values[kept], fitted[kept]], axis=1)


def draw_diagram(axes: Axes, diagram: Diagram, *, colour: str = BLUE, positive: bool = False) -> None:
    """Accuracy against confidence: the band of a calibrated model, a bar for each bin, faded where a bin has
    few examples, the isotonic curve, and members as thin lines. Above the diagonal is under-confident."""
    bins = diagram.bins
    x, y = bins.confidence.numpy(), bins.accuracy.numpy()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    _draw_band(axes, bins)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1, zorder=1.5)
    if diagram.members is not None:
        faint = 0.6 * min(1.0, CLEAR_MEMBERS / len(diagram.members))
        for member in diagram.members:
            known = ~np.isnan(member[0])
            axes.plot(*member[:, known], color=NOTE, linewidth=0.7, alpha=faint)
    if diagram.corners is not None:
        axes.plot(*diagram.corners.T, color=VERMILION, linewidth=1.6, solid_joinstyle="round", clip_on=False)
    alphas = np.where(bins.count.numpy() >= MIN_EXAMPLES, 1.0, FAINTEST)
    for alpha in np.unique(alphas):
        some: Any = {"color": colour, "alpha": alpha, "clip_on": False, "zorder": 3}
        of = alphas == alpha
        axes.vlines(x[of], bins.low.numpy()[of], bins.high.numpy()[of], linewidth=1.6, **some)
        axes.plot(x[of], y[of], "o", markersize=5, **some)
    axes.set_xlabel("P(y = 1)" if positive else "confidence: how sure it was")
    axes.set_ylabel("rate of y = 1" if positive else "accuracy: how often it was right")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def _draw_band(axes: Axes, bins: ReliabilityBins) -> None:
    """Each bin's range of chance, moved to the diagonal at the bin's mean confidence."""
    x, low, high = (part.numpy() for part in (bins.confidence, bins.null_low, bins.null_high))
    if len(x) > 1:
        axes.fill_between(x, low, high, color=GREY, alpha=0.25, linewidth=0, zorder=1)
    else:
        axes.vlines(x, low, high, color=GREY, alpha=0.25, linewidth=9, zorder=1)


def diagram_handles(diagrams: Sequence[Diagram], *, colour: str = BLUE) -> list[Any]:
    """What a legend explains of these diagrams."""
    per_cent = f"{100 * LEVEL:g} %"
    handles: list[Any] = [
        Line2D([], [], color=colour, marker="o", markersize=5, linewidth=1.6, label=f"bin, {per_cent} bar"),
        Patch(color=GREY, alpha=0.25, linewidth=0, label=f"if calibrated, {per_cent}"),
    ]
    counts = np.concatenate([each.bins.count.numpy() for each in diagrams])
    if (counts < MIN_EXAMPLES).any():
        label = f"below {MIN_EXAMPLES} examples"
        handles.insert(
            1, Line2D([], [], color=colour, alpha=FAINTEST, marker="o", linewidth=1.6, label=label)
        )
    if any(each.corners is not None for each in diagrams):
        handles.append(Line2D([], [], color=VERMILION, linewidth=1.6, label="isotonic (CORP)"))
    if any(each.members is not None for each in diagrams):
        handles.append(Line2D([], [], color=NOTE, linewidth=0.7, label="a member"))
    return handles


def diagram_figure(
    diagram: Diagram,
    *,
    title: str = "",
    colour: str = BLUE,
    positive: bool = False,
    beside: Sequence[Diagram] = (),
) -> Figure:
    """One diagram over the share of examples in each bin, narrow enough for a phone; the legend explains
    diagrams `beside` it too, so that all are equally high."""
    with styled():
        drawing, (top, bottom) = figure(4.4, 4.7, 2, 1, title=title, share=True, height_ratios=[5, 1])
        draw_diagram(top, diagram, colour=colour, positive=positive)
        bottom.set_xlabel(top.get_xlabel())
        top.set_xlabel("")
        bins = diagram.bins
        cell = equal_width(BINS)(bins.confidence[:, None], False)[:, 0].long()
        share = torch.zeros(BINS, dtype=torch.float64)
        share[cell] = bins.count.double() / bins.count.sum()
        bottom.stairs(share.numpy(), np.linspace(0, 1, BINS + 1), color=colour, fill=True, alpha=0.6)
        bottom.set_ylabel("share")
        bottom.set_ylim(bottom=0)
        bottom.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        add_legend(drawing, diagram_handles([diagram, *beside], colour=colour))
    return drawing
