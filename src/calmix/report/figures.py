"""Figures of many runs: bars of error and ECE, corruption by severity, training, and who was mixed.

Each takes results and gives a matplotlib figure, for the page and for a paper alike.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calmix.predictions import Predictions, pool
from calmix.report.results import ENSEMBLES, Result, by_key
from calmix.report.style import colour, figure, styled

PANELS = (("accuracy", "error %"), ("ece", "ECE %"))
MANY_GROUPS, LONG_NAME = 30, 18  # more names, and longer ones, do not fit below an axis


def error_and_ece_bars(results: Sequence[Result]) -> Figure:
    """Error and ECE of the pool by ensemble and augmentation: mean over seeds, their spread, a dot a run."""
    groups = {key[1:]: held for key, held in by_key(results).items() if _values(held, "ece")}
    ensembles = [name for name in ENSEMBLES if any(key[0] == name for key in groups)]
    augments = list(dict.fromkeys(augment for _, augment in groups))
    with styled():
        made, axes = figure(max(5.0, 1.2 + 0.34 * len(groups) + 0.9 * len(ensembles)), 4.8, rows=2)
        for panel, (name, text) in zip(axes, PANELS, strict=True):
            place, ticks = 0.0, []
            for ensemble in ensembles:
                present = [augment for augment in augments if (ensemble, augment) in groups]
                ticks.append(place + (len(present) - 1) / 2)
                for augment in present:
                    values = 100 * np.array(_values(groups[ensemble, augment], name))
                    values = 100 - values if name == "accuracy" else values
                    _bar(panel, place, values, colour(augment, augments.index(augment)))
                    place += 1
                place += 0.8
            panel.set_ylabel(text)
            panel.set_xticks(ticks, [ENSEMBLES[name] for name in ensembles])
            panel.set_xlim(-0.7, max(place - 1.1, 3.3))
            panel.grid(axis="x", visible=False)
            panel.set_ylim(bottom=0)
        for i, augment in enumerate(augments):
            axes[0].bar([0], [0], color=colour(augment, i), label=augment)
        made.legend(loc="outside upper left", ncols=4)
    return made


def _bar(axes: Axes, place: float, values: npt.NDArray[np.float64], shade: str) -> None:
    spread = float(values.std(ddof=1)) if len(values) > 1 else None
    axes.bar([place], [values.mean()], yerr=spread, color=shade, width=0.86, ecolor="#333333", capsize=3)
    if len(values) > 1:
        axes.plot([place] * len(values), values, "o", color="#333333", markersize=2, alpha=0.7)


def _values(results: Sequence[Result], name: str) -> list[float]:
    return [value for result in results if (value := result.clean(name)) is not None]


def corruption_curves(results: Sequence[Result]) -> Figure:
    """Error and ECE against the severity of corruption, mean over its types; 0 is the clean test set."""
    with styled():
        made, axes = figure(6.4, 3.1, columns=2)
        for panel, (name, text) in zip(axes, PANELS, strict=True):
            for place, (key, members) in enumerate(by_key(results).items()):
                curves = [_by_severity(result, name) for result in members if result.by_severity(name)]
                severities = sorted(set.intersection(*map(set, curves))) if curves else []
                if severities:
                    rows = np.array([[curve[s] for s in severities] for curve in curves])
                    rows = 1 - rows if name == "accuracy" else rows
                    _curve(panel, severities, 100 * rows, colour(key[2], place), key[2])
            panel.set_xlabel("severity")
            panel.set_ylabel(text)
            panel.set_xticks(range(6))
            panel.set_ylim(bottom=0)
        axes[0].legend()
    return made


def _by_severity(result: Result, name: str) -> dict[int, float]:
    clean = result.clean(name)
    return ({0: clean} if clean is not None else {}) | result.by_severity(name)


def training_curves(results: Sequence[Result]) -> Figure:
    """Validation accuracy, ECE and the gaps of pool and members, epoch by epoch."""
    panels = (("accuracy", "accuracy %"), ("ece", "ECE %"), ("gap_pool", "gap (points)"))
    with styled():
        made, axes = figure(7.6, 2.9, columns=3)
        for panel, (name, text) in zip(axes, panels, strict=True):
            for place, (key, members) in enumerate(by_key(results).items()):
                epochs, rows = _by_epoch(members, name)
                if len(epochs):
                    _curve(panel, epochs, 100 * rows, colour(key[2], place), key[2])
            panel.set_xlabel("epoch")
            panel.set_ylabel(text)
        axes[2].axhline(0, color="#333333", linewidth=1)
        axes[0].legend()
    return made


def _by_epoch(results: Sequence[Result], name: str) -> tuple[list[int], npt.NDArray[np.float64]]:
    """Epochs that every stream has reached, and a row of values for each stream."""
    streams: dict[tuple[int, int], dict[int, float]] = {}
    for place, result in enumerate(results):
        for line in result.history:
            if isinstance(value := line.get(name), int | float):
                streams.setdefault((place, int(line.get("member", 0))), {})[int(line["epoch"])] = float(value)
    epochs = sorted(set.intersection(*map(set, streams.values()))) if streams else []
    return epochs, np.array([[stream[e] for e in epochs] for stream in streams.values()])


def _curve(axes: Axes, x: Sequence[int], rows: npt.NDArray[np.float64], shade: str, label: str) -> None:
    """The mean of several rows as a line, and the range from the least to the most of them."""
    axes.plot(
        x,
        rows.mean(0),
        color=shade,
        linewidth=1.6,
        marker="o" if len(x) < 12 else None,
        markersize=3,
        label=label,
    )
    if len(rows) > 1:
        axes.fill_between(x, rows.min(0), rows.max(0), color=shade, alpha=0.15, linewidth=0)


def mixup_counts(
    mixed: npt.NDArray[Any], names: Sequence[str], predictions: Predictions | None = None
) -> Figure:
    """In how many epochs each class was mixed, from (epochs, members, classes) of 0 and 1; a dot is a member.

    Below it the pool's test accuracy of each class, where predictions are given: hard classes should be mixed
    often, easy ones rarely.
    """
    share = 100 * mixed.mean(0)
    members, groups = share.shape
    by_class = predictions is not None and predictions.logits.shape[2] == groups
    place = np.arange(groups)
    with styled():
        made, axes = figure(
            min(12, max(4.6, 1.6 + 0.26 * groups)), 4.4 if by_class else 2.8, rows=1 + by_class
        )
        axes[0].bar(place, share.mean(0), color=colour("camixup"))
        if members > 1:
            axes[0].plot(place, share.T, "o", color="#333333", markersize=2)
        axes[0].set_ylabel("% of epochs mixed")
        if by_class:
            assert predictions is not None
            axes[1].bar(place, 100 * _class_accuracy(predictions), color="#767676")
            axes[1].set_ylabel("test accuracy %")
        for panel in axes:
            panel.set_xlim(-0.6, groups - 0.4)
            panel.set_ylim(0, 105)
            panel.grid(axis="x", visible=False)
            panel.tick_params(labelbottom=panel is axes[-1])
            if groups <= MANY_GROUPS:
                panel.set_xticks(place, [_plain(name) for name in names], rotation=60, ha="right")
        axes[-1].set_xlabel("class")
    return made


def _class_accuracy(predictions: Predictions) -> npt.NDArray[np.float64]:
    hit = (pool(predictions.logits).argmax(1) == predictions.labels).double()
    count = predictions.labels.bincount(minlength=predictions.logits.shape[2])
    right = predictions.labels.bincount(hit, minlength=predictions.logits.shape[2])
    return np.asarray((right / count).numpy())


def _plain(name: str) -> str:
    """A name as short text: matplotlib would read what stands between dollars as mathematics."""
    return (name if len(name) <= LONG_NAME else name[: LONG_NAME - 1] + "…").replace("$", r"\$")
