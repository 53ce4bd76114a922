"""Figures of training: validation data epoch by epoch, and how often each class was mixed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from calmix.errors import InputError
from calmix.report.style import GREEN, INK, add_legend, figure, plain, series_colours, series_label, styled
from calmix.study.results import Group

Array = npt.NDArray[np.float64]
PANELS = {"accuracy": "accuracy %", "ece": "ECE %", "gap_pool": "gap"}
MOST_CLASSES = 20  # of more classes, the hardest and the easiest half of so many are drawn
LONG_NAME = 24


def training_curves(groups: Sequence[Group], *, title: str = "") -> Figure:
    """Accuracy, ECE and gap on validation data after each epoch: the mean, and the range over seeds and
    independent members."""
    drawn = [group for group in groups if any(result.history for result in group.results)]
    if not drawn:
        raise InputError("groups have no run with epochs to draw")
    shades = series_colours(groups, drawn)
    with styled():
        drawing, axes = figure(7.4, 2.6, columns=len(PANELS), title=title)
        for panel, (name, text) in zip(axes, PANELS.items(), strict=True):
            for group in drawn:
                shade = shades[series_label(group)]
                epochs, rows = _by_epoch(group, name)
                if not epochs:
                    continue
                marker = "o" if len(epochs) < 12 else None
                panel.plot(epochs, rows.mean(0), color=shade, linewidth=1.6, marker=marker, markersize=3)
                if len(rows) > 1:
                    panel.fill_between(epochs, rows.min(0), rows.max(0), color=shade, alpha=0.15, linewidth=0)
            panel.set_title(text)
            panel.set_xlabel("epoch")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
            if name == "gap_pool":
                panel.axhline(0, color=INK, linewidth=1)
        handles = [Line2D([], [], color=shade, linewidth=1.6, label=label) for label, shade in shades.items()]
        add_legend(drawing, handles)
    return drawing


def _by_epoch(group: Group, name: str) -> tuple[list[int], Array]:
    """Epochs that every stream of training has validated, and a row of values in per cent for each stream."""
    streams: dict[tuple[int, int], dict[int, float]] = {}
    for seed, result in enumerate(group.results):
        for epoch in result.history:
            if (value := getattr(epoch, name)) is not None:
                streams.setdefault((seed, epoch.member), {})[epoch.epoch] = 100 * value
    epochs = sorted(set.intersection(*map(set, streams.values()))) if streams else []
    return epochs, np.array([[stream[e] for e in epochs] for stream in streams.values()])


def mixed_classes(
    share: Array, accuracy: Array | None, names: Sequence[str], *, title: str = "", colour: str = GREEN
) -> Figure:
    """Share of the epochs (members, classes) in which each class was mixed, a dot for each member and a line
    for their mean, beside the class's test accuracy (classes,) where it is given.

    The hardest class is on top, without accuracies the one mixed most often. Of more than 20 classes the ten
    hardest and the ten easiest are drawn.
    """
    members, classes = share.shape
    for name, size in (("names", len(names)), ("accuracy", classes if accuracy is None else len(accuracy))):
        if size != classes:
            raise InputError(f"{name} has {size} entries for the {classes} classes of share")
    order = np.argsort(-share.mean(0) if accuracy is None else accuracy, kind="stable")
    if classes > MOST_CLASSES:
        order = np.concatenate([order[: MOST_CLASSES // 2], order[-MOST_CLASSES // 2 :]])
    rows = np.arange(len(order))
    with styled():
        height = 0.8 + 0.24 * len(order)
        widths = [3] if accuracy is None else [3, 1]
        drawing, axes = figure(6.4, height, 1, len(widths), title=title, share=True, width_ratios=widths)
        near = np.linspace(-0.2, 0.2, members) if members > 1 else np.zeros(1)
        dot: Any = {"color": colour, "markersize": 4, "alpha": 0.8, "mec": "white", "mew": 0.5}
        for row, k in zip(rows, order, strict=True):
            axes[0].plot(100 * share[:, k], row + near, "o", **dot)
        if members > 1:
            mean = 100 * share.mean(0)[order]
            axes[0].vlines(mean, rows - 0.36, rows + 0.36, color=INK, linewidth=1.4)
        short = [name if len(name) <= LONG_NAME else name[: LONG_NAME - 1] + "…" for name in map(str, names)]
        axes[0].set_yticks(rows, [plain(short[k]) for k in order])
        axes[0].set_ylim(len(order) - 0.4, -0.6)
        axes[0].set_xlim(-3, 103)
        axes[0].set_xlabel("% of epochs in which the class was mixed")
        if len(order) < classes:
            rank = "hardest and {} easiest" if accuracy is not None else "most and {} least often mixed"
            half = MOST_CLASSES // 2
            axes[0].set_ylabel(f"the {half} {rank.format(half)} of {classes} classes")
            axes[0].axhline(half - 0.5, color=INK, linewidth=0.6)
        if accuracy is not None:
            axes[1].plot(100 * accuracy[order], rows, "o", color=INK, markersize=4, clip_on=False)
            axes[1].margins(x=0.15)
            axes[1].set_xlabel("test accuracy %")
            axes[1].tick_params(left=False)
        for panel in axes:
            panel.grid(axis="y", visible=False)
    return drawing
