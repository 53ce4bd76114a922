"""The paper's figures, from the run folders of a study: one colour for each augmentation everywhere."""

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from calmix import data, metrics
from calmix.corruptions import CORRUPTIONS
from calmix.evaluate import SEVERITIES
from calmix.paper.methods import ENSEMBLES, SMOOTHED, title
from calmix.paper.mixing import class_accuracy, mixed_share
from calmix.paper.quantities import CECE, ECE, ERROR, SCALED_CECE, SCALED_ECE, Quantity
from calmix.paper.study import Method, Result, Study
from calmix.paper.toy import REACH, surface
from calmix.predictions import load_predictions, pool
from calmix.report.style import BLACK, GREY, colour, figure, styled

MANY_CLASSES = 20  # of more, the hardest and the easiest halves of so many are drawn
LINES = {"batch": ("-", "o", BLACK), "mc": ("--", "s", "#555555"), "deep": (":", "^", GREY)}
WIDE = 0.8  # of the space between two ticks, for bars and boxes
FEW = 0.002  # of all examples


def bars(
    study: Study,
    methods: Sequence[Method],
    quantities: Sequence[Quantity],
    members: Sequence[Quantity | None] = (),
) -> Figure:
    """A panel for each quantity: a bar for each method, a line for its spread over seeds, and a diamond where
    its members alone stand."""
    ensembles = list(dict.fromkeys(ensemble for ensemble, _ in methods))
    augments = list(dict.fromkeys(augment for _, augment in methods))
    width = WIDE / len(augments)
    of_members = [*members, *[None] * len(quantities)]
    with styled():
        made, axes = figure(1.6 + 1.9 * len(quantities), 2.9, columns=len(quantities))
        for panel, quantity, of_member in zip(axes, quantities, of_members, strict=False):
            for method in methods:
                place = ensembles.index(method[0]) + (augments.index(method[1]) + 0.5) * width - WIDE / 2
                if values := quantity.values(study, method):
                    spread = statistics.stdev(values) if len(values) > 1 else None
                    panel.bar(
                        [place],
                        [statistics.fmean(values)],
                        width=0.92 * width,
                        yerr=spread,
                        color=colour(method[1]),
                        ecolor="#333333",
                        capsize=2,
                    )
                if of_member and (values := of_member.values(study, method)):
                    panel.plot([place], [statistics.fmean(values)], "D", color="white", mec="#333333", ms=4)
            panel.set_title(quantity.title, loc="left")
            panel.set_xticks(range(len(ensembles)), [ENSEMBLES[e] for e in ensembles])
            panel.set_xlim(-0.5, len(ensembles) - 0.5)
            panel.grid(axis="x", visible=False)
        handles: list[object] = [Patch(color=colour(a), label=title(a)) for a in augments]
        if members:
            handles += axes[0].plot(
                [], [], "D", color="white", mec="#333333", ms=4, label="its members' mean"
            )
        made.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4))
    return made


def reliability(study: Study, panels: Sequence[tuple[str, Sequence[Method]]]) -> Figure:
    """Accuracy minus confidence against confidence, in 15 bins; below, the share of examples in each.

    Examples of all seeds fall into the same bins; a bin with next to none of them has no point.
    """
    with styled():
        made = Figure(figsize=(1 + 3.1 * len(panels), 4.2), layout="constrained")
        axes = made.subplots(2, len(panels), squeeze=False, sharex=True, sharey="row", height_ratios=[3, 1])
        for column, (name, methods) in enumerate(panels):
            top, bottom = axes[:, column]
            for method in methods:
                if results := study.results.get(method):
                    _reliability(top, bottom, results, method[1])
            top.axhline(0, color="#333333", linewidth=1)
            top.set_title(name, loc="left")
            bottom.legend(*top.get_legend_handles_labels(), loc="upper left", fontsize=8)
            bottom.set_xlabel("confidence")
            bottom.set_xlim(0, 1)
        axes[1, 0].set_ylim(bottom=0)
        reach = max(0.05, *(abs(end) for end in axes[0, 0].get_ylim()))
        axes[0, 0].set_ylim(-reach, reach)
        axes[0, 0].set_ylabel("accuracy - confidence")
        axes[1, 0].set_ylabel("share")
        for text, height, side in (("under-confident", 0.98, "top"), ("over-confident", 0.02, "bottom")):
            axes[0, 0].text(
                0.02, height, text, transform=axes[0, 0].transAxes, va=side, color="#555555", fontsize=8
            )
    return made


def _reliability(top: Axes, bottom: Axes, results: Sequence[Result], augment: str) -> None:
    held = [load_predictions(result.run.predictions("test")) for result in results]
    probs, labels = torch.cat([pool(h.logits) for h in held]), torch.cat([h.labels for h in held])
    bins = metrics.reliability(probs, labels)
    filled = (bins.count > FEW * len(labels)).numpy()
    gap, confidence = bins.gap.numpy()[filled], bins.confidence.numpy()[filled]
    top.plot(confidence, gap, "o-", color=colour(augment), linewidth=2, markersize=3.5, label=title(augment))
    share = (bins.count / bins.count.sum()).numpy()
    bottom.stairs(share, np.linspace(0, 1, len(share) + 1), color=colour(augment), linewidth=1.4)


def smoothing(study: Study, amounts: Sequence[float]) -> Figure:
    """ECE and error against the coefficient of label smoothing, a line for each ensemble."""
    with styled():
        made, axes = figure(6.4, 2.9, columns=2)
        for panel, quantity in zip(axes, (ECE, ERROR), strict=True):
            for ensemble, (line, marker, shade) in LINES.items():
                methods = {a: (ensemble, f"{SMOOTHED}{a:g}" if a else "none") for a in amounts}
                found = {a: v for a, m in methods.items() if (v := quantity.values(study, m))}
                if found:
                    spread = [statistics.stdev(v) if len(v) > 1 else 0 for v in found.values()]
                    panel.errorbar(
                        list(found),
                        [statistics.fmean(v) for v in found.values()],
                        yerr=spread if any(spread) else None,
                        linestyle=line,
                        marker=marker,
                        markersize=5,
                        color=shade,
                        label=ENSEMBLES[ensemble],
                        capsize=2,
                    )
            panel.set_title(quantity.title, loc="left")
            panel.set_xlabel("label smoothing")
            panel.set_xticks(amounts)
            panel.set_ylim(bottom=0)
        handles, names = axes[0].get_legend_handles_labels()
        made.legend(handles, names, loc="outside lower center", ncols=3)
    return made


def counts(study: Study, method: Method) -> Figure:
    """In how many epochs each class was mixed, a dot for each member; the hardest class is on top."""
    results = study[method]
    share = 100 * np.concatenate([mixed_share(result.run) for result in results])
    accuracy = 100 * np.mean([class_accuracy(result.run) for result in results], axis=0)
    names = results[0].summary.get("classes") or [str(k) for k in range(len(accuracy))]
    order = accuracy.argsort(kind="stable")
    if len(order) > MANY_CLASSES:
        order = np.concatenate([order[: MANY_CLASSES // 2], order[-MANY_CLASSES // 2 :]])
    with styled():
        made, (panel, beside) = figure(6.4, 0.9 + 0.24 * len(order), columns=2)
        panel.get_gridspec().set_width_ratios([3, 1])  # type: ignore[union-attr]
        rows = np.arange(len(order))
        shade = colour(method[1])
        for row, k in zip(rows, order, strict=True):
            near = np.linspace(-0.18, 0.18, len(share)) if len(share) > 1 else np.zeros(1)
            panel.plot(share[:, k], row + near, "o", color=shade, ms=4, alpha=0.8, mec="white", mew=0.5)
            panel.plot([share[:, k].mean()] * 2, [row - 0.32, row + 0.32], color="#333333", linewidth=1.4)
        panel.set_yticks(rows, [_plain(str(names[k])) for k in order])
        if len(order) < len(accuracy):
            half = MANY_CLASSES // 2
            panel.set_ylabel(f"the {half} hardest and the {half} easiest of {len(accuracy)} classes")
        panel.set_xlim(-2, 102)
        panel.set_xlabel("% of epochs in which the class was mixed (a dot a member)")
        beside.barh(rows, accuracy[order], color="#BBBBBB", height=0.7)
        for row, k in zip(rows, order, strict=True):
            beside.text(2, float(row), f"{accuracy[k]:.0f}", va="center", fontsize=8)
        beside.set_yticks([])
        beside.set_xlim(0, 100)
        beside.set_xlabel("test accuracy %")
        for axes in (panel, beside):
            axes.set_ylim(len(order) - 0.4, -0.6)
            axes.grid(axis="y", visible=False)
    return made


def boxes(study: Study, ensembles: Sequence[str], augments: Sequence[str]) -> Figure:
    """Error and ECE at each severity: a box over the types of corruption, its line the median; at 0 the clean
    test set."""
    quantities = (("error %", "accuracy"), ("ECE %", "ece"))
    width = WIDE / len(augments)
    with styled():
        each = 1.4 + 0.6 * len(augments)
        made = Figure(figsize=(1 + each * len(ensembles), 4.8), layout="constrained")
        grid = made.subplots(2, len(ensembles), squeeze=False, sharex=True, sharey="row")
        for row, (label, name) in enumerate(quantities):
            for column, ensemble in enumerate(ensembles):
                axes = grid[row, column]
                for place, augment in enumerate(augments):
                    offset = (place + 0.5) * width - WIDE / 2
                    _boxes(
                        axes, study.results.get((ensemble, augment), ()), name, offset, width, colour(augment)
                    )
                axes.set_xticks(range(6), ["clean", *map(str, SEVERITIES)])
                axes.set_xlim(-0.6, 5.6)
                axes.grid(axis="x", visible=False)
            grid[row, 0].set_ylabel(label)
            grid[row, 0].set_ylim(bottom=0)
        for column, ensemble in enumerate(ensembles):
            grid[0, column].set_title(ENSEMBLES[ensemble], loc="left")
            grid[1, column].set_xlabel("severity")
        handles = [Patch(color=colour(a), label=title(a)) for a in augments]
        made.legend(handles=handles, loc="outside lower center", ncols=3)
    return made


def _boxes(axes: Axes, results: Sequence[Result], name: str, offset: float, width: float, shade: str) -> None:
    def number(judged: dict[str, dict[str, float]]) -> float:
        value = 100 * judged["pool"][name]
        return 100 - value if name == "accuracy" else value

    if not results:
        return
    clean = statistics.fmean(number(result.summary["clean"]) for result in results)
    axes.plot([offset], [clean], "o", color=shade, markersize=5)
    for severity in SEVERITIES:
        values = [
            number(judged)
            for result in results
            for kind in CORRUPTIONS
            if (judged := result.summary.get("corrupted", {}).get(kind, {}).get(str(severity)))
        ]
        if values:
            axes.boxplot(
                [values],
                positions=[severity + offset],
                widths=0.85 * width,
                patch_artist=True,
                manage_ticks=False,
                boxprops={"facecolor": shade, "edgecolor": "#333333", "linewidth": 0.6},
                medianprops={"color": "white", "linewidth": 1.6},
                whiskerprops={"color": "#333333", "linewidth": 0.6},
                capprops={"color": "#333333", "linewidth": 0.6},
                flierprops={"marker": ".", "markersize": 2, "markeredgecolor": shade},
            )


def toy(study: Study, methods: Sequence[Method]) -> Figure:
    """The clusters, and beside them each method's confidence all over the plane, on one scale."""
    with styled():
        made, axes = figure(2.35 * (1 + len(methods)) + 0.6, 2.6, columns=1 + len(methods))
        clusters = data.make_clusters(500)
        shades = [colour("", k) for k in range(len(clusters.radii))]
        x, y = clusters.points.T.numpy()
        axes[0].scatter(x, y, s=4, c=[shades[k] for k in clusters.labels], linewidths=0)
        axes[0].set_title("data", loc="left")
        image = None
        for panel, method in zip(axes[1:], methods, strict=True):
            panel.set_title(_toy_title(method), loc="left")
            if results := study.results.get(method):
                image = panel.imshow(
                    surface(results[0].run).confidence.numpy(),
                    origin="lower",
                    extent=(-REACH, REACH, -REACH, REACH),
                    vmin=1 / len(clusters.radii),
                    vmax=1,
                    cmap="cividis",
                    interpolation="bilinear",
                )
                panel.scatter(x[::5], y[::5], s=1.5, c=BLACK, alpha=0.6, linewidths=0)
        for panel in axes:
            panel.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xticks=[], yticks=[], aspect="equal")
            panel.grid(visible=False)
            panel.spines[["top", "right"]].set_visible(True)
        if image is not None:
            made.colorbar(image, ax=axes, label="confidence", shrink=0.9)
    return made


def _toy_title(method: Method) -> str:
    return {
        ("single", "mixup"): "Mixup, one network",
        ("deep", "none"): "deep ensemble",
        ("deep", "mixup"): "Mixup ensemble",
    }[method]


def before_and_after(study: Study, methods: Sequence[Method]) -> Figure:
    """ECE as it is (filled) and at a temperature fitted on validation data (hollow)."""
    panels = (("ECE %, clean", ECE, SCALED_ECE), ("ECE %, corrupted", CECE, SCALED_CECE))
    with styled():
        made, axes = figure(7.4, 0.9 + 0.24 * len(methods), columns=2)
        for panel, (name, before, after) in zip(axes, panels, strict=True):
            for row, method in enumerate(methods):
                pair = [q.values(study, method) for q in (before, after)]
                if not all(pair):
                    continue
                start, end = map(statistics.fmean, pair)
                shade = colour(method[1])
                panel.plot([start, end], [row, row], color=shade, linewidth=1.4)
                panel.plot([start], [row], "o", color=shade, markersize=6)
                panel.plot([end], [row], "o", color=shade, markersize=6, mfc="white", mew=1.4)
            panel.set_title(name, loc="left")
            panel.set_ylim(len(methods) - 0.4, -0.6)
            panel.set_xlim(left=0)
            panel.set_yticks(range(len(methods)), [])
            panel.tick_params(left=False)
        names = [f"{ENSEMBLES[ensemble]}, {title(augment)}" for ensemble, augment in methods]
        axes[0].set_yticks(range(len(methods)), names)
        style: Any = {"color": "#555555", "linestyle": "none", "marker": "o", "markersize": 6}
        handles = [
            *axes[0].plot([], [], label="as it is", **style),
            *axes[0].plot([], [], label="at temperature T", mfc="white", mew=1.4, **style),
        ]
        made.legend(handles=handles, loc="outside lower center", ncols=2)
    return made


def _plain(name: str) -> str:
    """A name as text: matplotlib would read what stands between dollars as mathematics."""
    return name.replace("$", r"\$")
