"""The claims drawn: a matrix of all parts, and a forest plot of each claim."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from calmix.errors import InputError
from calmix.paper.judging import ClaimResult, Part
from calmix.paper.regime import seeds_text
from calmix.report.figures import CaptionedFigure
from calmix.report.style import GREY, INK, NOTE, add_legend, figure, plain, styled
from calmix.runs.recipe import ENSEMBLES

COLOURS = {
    "shown": "#00695C",
    "consistent": "#8FC1B5",
    "undecided": "#D9C9A3",
    "contradicted": "#C0392B",
    "not run": "#EEEEEE",
}
ONE_SEED: dict[str, Any] = {"hatch": "/////", "edgecolor": "white", "linewidth": 0}
NAME_WIDTH = 150  # points: two lines of so many letters
NAME_LETTERS = 31
ROW_LETTERS = 46  # of the name of a row in a forest


def claims_figures(judged: Sequence[ClaimResult]) -> Iterator[CaptionedFigure]:
    """The matrix, and the forest of every claim that has a part that was run."""
    caption = "Claims by data set and ensemble, a square for each part"
    yield CaptionedFigure("claims", "Claims", caption, caption, matrix_figure(judged))
    for claim in judged:
        if any(part.estimate is not None for part in claim.parts):
            caption = f"Claim {claim.id}: {claim.text}"
            forest = forest_figure(claim, title=f"{caption} ({_subject(claim.parts)})")
            yield CaptionedFigure(f"claim-{claim.id}", caption, caption, f"{caption}: {claim.line}", forest)


def matrix_figure(judged: Sequence[ClaimResult]) -> Figure:
    """A row for each claim, a column for each ensemble of each data set, a square for each part in it.

    Columns are narrow, so that the words can still be read on a phone.
    """
    columns = _columns(judged)
    if not columns:
        raise InputError("no claim has a part to draw")
    with styled():
        height = 1.3 + 0.32 * len(judged)
        title = _subject([part for claim in judged for part in claim.parts])
        drawing, (axes,) = figure(2.2 + 0.19 * len(columns), height, title=title)
        for row, claim in enumerate(judged):
            if not {(part.dataset, part.ensemble) for part in claim.parts} & {*columns}:
                axes.text(-0.45, row, "not run", va="center", fontsize=8, color=NOTE)
            for column, (dataset, ensemble) in enumerate(columns):
                parts = [p for p in claim.parts if (p.dataset, p.ensemble) == (dataset, ensemble)]
                for k, part in enumerate(parts):
                    width = 0.9 / len(parts)
                    corner = (column - 0.45 + k * width, row - 0.4)
                    axes.add_patch(Rectangle(corner, 0.94 * width, 0.8, **_look(part)))
        axes.set_xlim(-0.6, len(columns) - 0.4)
        axes.set_ylim(len(judged) - 0.4, -0.6)
        names = [plain(short_name(claim)) for claim in judged]
        axes.set_yticks(range(len(judged)), names, ha="left", linespacing=1.0)
        axes.tick_params(axis="y", pad=NAME_WIDTH)
        short = [ENSEMBLES[ensemble].short for _, ensemble in columns]
        axes.set_xticks(range(len(columns)), short, rotation=90)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        for dataset in dict.fromkeys(dataset for dataset, _ in columns):
            places = [place for place, (name, _) in enumerate(columns) if name == dataset]
            middle = sum(places) / len(places)
            upright = 90 if len(places) < 3 else 0
            look: Any = {"ha": "center", "va": "top", "fontsize": 8.5, "rotation": upright}
            axes.text(middle, len(judged) - 0.3, plain(dataset).replace("-", "-\n"), **look)
            if places[0]:
                axes.axvline(places[0] - 0.5, color=GREY, linewidth=0.6)
        legend = [Patch(color=colour, label=word) for word, colour in COLOURS.items()]
        if any(_look(part).get("hatch") for claim in judged for part in claim.parts):
            legend.append(Patch(facecolor=GREY, **ONE_SEED, label="one seed"))
        add_legend(drawing, legend)
    return drawing


def _look(part: Part) -> dict[str, Any]:
    """Of its square: the colour of its verdict, hatched where that rests on one seed."""
    one_seed = part.provisional and part.estimate is not None
    return {"facecolor": COLOURS[part.verdict], "linewidth": 0} | (ONE_SEED if one_seed else {})


def _subject(parts: Iterable[Part]) -> str:
    """Scale and seeds of what was run, for the title of a figure; the rows or columns name the data sets."""
    run = [part for part in parts if part.estimate is not None]
    scales = dict.fromkeys(part.regime for part in run if part.regime)
    return ", ".join([*scales, seeds_text(part.seeds for part in run)])


def short_name(claim: ClaimResult) -> str:
    """The claim in two lines at most."""
    lines = textwrap.wrap(
        f"{claim.id}  {claim.short or claim.text}", NAME_LETTERS, max_lines=2, placeholder=" ..."
    )
    return "\n".join(lines)


def _columns(judged: Sequence[ClaimResult]) -> list[tuple[str, str]]:
    pairs = {
        (part.dataset, part.ensemble)
        for claim in judged
        for part in claim.parts
        if part.verdict != "not run" or part.dataset != "folder"
    }
    ensembles = list(ENSEMBLES)
    datasets = list(dict.fromkeys(part.dataset for claim in judged for part in claim.parts))  # as judged
    return sorted(pairs, key=lambda pair: (datasets.index(pair[0]), ensembles.index(pair[1])))


def forest_figure(claim: ClaimResult, *, title: str = "") -> Figure:
    """A row for each part: its estimate and interval, coloured by its verdict, and the paper's value."""
    parts = [part for part in claim.parts if part.estimate is not None and part.interval is not None]
    if not parts:
        raise InputError(f"claim {claim.id} has no part that was run")
    units = list(dict.fromkeys(part.unit for part in parts))
    panels = [[part for part in parts if part.unit == unit] for unit in units]
    names = [[_name(part) for part in some] for some in panels]
    heights = [0.55 + 0.09 * len(some) + 0.16 * sum(map(len, map(str.splitlines, some))) for some in names]
    with styled():
        drawing, axes = figure(7.2, sum(heights), rows=len(panels), height_ratios=heights, title=title)
        for each, unit, some, labels in zip(axes, units, panels, names, strict=True):
            for row, part in enumerate(some):
                _draw(each, row, part)
            each.axvline(0, color=INK, linewidth=1)
            each.set_yticks(range(len(some)), labels)
            each.set_ylim(len(some) - 0.4, -0.6)
            each.grid(axis="y", visible=False)
            each.set_xlabel(unit)
        add_legend(drawing, _handles(parts))
    return drawing


def _handles(parts: Sequence[Part]) -> list[Line2D]:
    look: Any = {"color": INK, "linestyle": "none"}
    marks = [Line2D([], [], color=COLOURS[w], marker="o", linewidth=2, label=w) for w in _words(parts)]
    if any(part.paper is not None for part in parts):
        marks.append(Line2D([], [], marker="D", markersize=4, mfc="none", label="the paper", **look))
    if any(part.limit for part in parts):
        marks.append(Line2D([], [], marker="|", markersize=11, label="the claim's margin", **look))
    if any(not _is_known(part) for part in parts):
        marks.append(Line2D([], [], marker="o", markersize=5, mfc="none", label="no interval", **look))
    return marks


def _is_known(part: Part) -> bool:
    return part.interval is not None and all(map(math.isfinite, part.interval))


def _draw(axes: Axes, row: int, part: Part) -> None:
    assert part.estimate is not None
    assert part.interval is not None
    factor = 100 if part.in_points else 1
    low, high = (factor * end for end in part.interval)
    colour = COLOURS[part.verdict]
    known = _is_known(part)
    if known:
        axes.plot([low, high], [row, row], color=colour, linewidth=2)
    fill = colour if known else "none"
    axes.plot([factor * part.estimate], [row], "o", color=colour, mfc=fill, markersize=5)
    if part.limit:
        axes.plot([factor * part.limit], [row], "|", color=INK, markersize=11)
    if part.paper is not None:
        axes.plot([factor * part.paper], [row], "D", color=INK, markersize=4, mfc="none")


def _words(parts: Sequence[Part]) -> list[str]:
    present = {part.verdict for part in parts}
    return [word for word in COLOURS if word in present]


def _name(part: Part) -> str:
    text = f"{part.dataset}, {ENSEMBLES[part.ensemble].short}: {part.comparison}"
    return plain(textwrap.fill(text, ROW_LETTERS))
