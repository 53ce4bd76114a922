"""Reliability diagrams: the paper's, accuracy minus confidence, and the standard one, accuracy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from calmix import metrics
from calmix.errors import InputError
from calmix.predictions import Predictions, pool
from calmix.report.style import colour, figure, styled

MANY_MEMBERS = 8  # more thin lines than this hide the thick one


def reliability_diagram(
    predictions: Mapping[str, Predictions], *, num_bins: int = 15, members: bool = True
) -> Figure:
    """Accuracy - confidence against confidence, the paper's variant: above 0 is under-confident.

    Several predictions share the axes, in the colours of their names; the pool is drawn thick and its members
    thin. Below, how many examples of each pool fall into each bin.

    >>> import torch
    >>> figure = reliability_diagram({"none": Predictions(torch.randn(4, 100, 3), torch.arange(100) % 3)})
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['accuracy - confidence', 'share of examples']
    """
    return _diagram(predictions, num_bins, members, difference=True)


def accuracy_diagram(
    predictions: Mapping[str, Predictions], *, num_bins: int = 15, members: bool = True
) -> Figure:
    """Accuracy against confidence, the standard variant: on the diagonal is calibrated, above is
    under-confident."""
    return _diagram(predictions, num_bins, members, difference=False)


def _diagram(
    predictions: Mapping[str, Predictions], num_bins: int, members: bool, difference: bool
) -> Figure:
    if not predictions:
        raise InputError("predictions: nothing to draw; give {name: predictions}")
    with styled():
        made, (top, bottom) = figure(5.2, 4.6, rows=2)
        top.get_gridspec().set_height_ratios([3, 1])  # type: ignore[union-attr]
        for place, (name, held) in enumerate(predictions.items()):
            shade = colour(name, place)
            if members and 1 < len(held.logits) <= MANY_MEMBERS:
                for logits in held.logits:
                    _curve(
                        top, logits.softmax(-1), held.labels, num_bins, difference, colour=shade, width=0.7
                    )
            bins = _curve(
                top, pool(held.logits), held.labels, num_bins, difference, colour=shade, width=2.4, label=name
            )
            share = bins.count / bins.count.sum()
            bottom.stairs(share.numpy(), [0.0, *bins.edges.tolist()], color=shade, linewidth=1.4)
        _finish(top, bottom, difference)
    return made


def _curve(
    axes: Axes,
    probs: Tensor,
    labels: Tensor,
    num_bins: int,
    difference: bool,
    *,
    colour: str,
    width: float,
    label: str | None = None,
) -> metrics.Reliability:
    bins = metrics.reliability(probs, labels, num_bins=num_bins)
    height = bins.gap if difference else bins.accuracy
    filled = (bins.count > 0).numpy()
    style: Any = {"color": colour, "linewidth": width, "alpha": 1.0 if label else 0.6}
    marker: Any = {"marker": "o", "markersize": 3.5} if label else {}
    axes.plot(bins.confidence.numpy()[filled], height.numpy()[filled], label=label, **style, **marker)
    return bins


def _finish(top: Axes, bottom: Axes, difference: bool) -> None:
    top.set_xlim(0, 1)
    if difference:
        low, high = top.get_ylim()
        reach = max(abs(low), abs(high), 0.05)
        top.set_ylim(-reach, reach)
        top.axhline(0, color="#333333", linewidth=1)
        top.set_ylabel("accuracy - confidence")
        notes = (("under-confident", 0.98, "top"), ("over-confident", 0.02, "bottom"))
        for text, height, side in notes:
            top.text(0.01, height, text, transform=top.transAxes, va=side, color="#555555", fontsize=8)
    else:
        top.set_ylim(0, 1)
        top.plot([0, 1], [0, 1], color="#333333", linewidth=1)
        top.set_ylabel("accuracy")
    top.tick_params(labelbottom=False)
    top.legend(loc="upper right" if difference else "upper left")
    bottom.set_xlim(0, 1)
    bottom.set_ylim(bottom=0)
    bottom.set_yticks(np.linspace(0, bottom.get_ylim()[1], 3).round(2))
    bottom.set_xlabel("confidence")
    bottom.set_ylabel("share of examples")
