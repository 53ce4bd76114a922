"""How figures look: one colour for each method everywhere, and colour-blind people can tell them apart."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calmix import files
from calmix.errors import InputError

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE, BLACK, GREY = "#0072B2", "#D55E00", "#CC79A7", "#000000", "#767676"

# By the augmentation's name as `Recipe.augment` says it. The paper's red, blue, green and purple keep their
# meaning.
COLOURS = {
    "none": VERMILION,
    "mixup": BLUE,
    "camixup": GREEN,
    "camixup-by-pool": "#00543E",
    "forgetting": PURPLE,
    "augmix": ORANGE,
    "augmix+mixup": SKY,
    "augmix+camixup": "#8A6100",
    "cutmix": "#7A3F9D",
    "cutmix-camixup": "#B79AC8",
    "regmixup": "#5B7F95",
    "mixupmp": "#9C5C3C",
}
SPARE = (VERMILION, BLUE, GREEN, ORANGE, PURPLE, SKY, BLACK, GREY)

RC: Any = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "svg.hashsalt": "calmix",
}


def colour(augmentation: str, place: int = 0) -> str:
    """The colour of an augmentation; for a name that is none, one by its place in the figure."""
    if augmentation.startswith("label-smoothing"):
        return GREY
    return COLOURS.get(augmentation, SPARE[place % len(SPARE)])


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Draw with calmix's settings, leaving the caller's matplotlib as it was."""
    with mpl.rc_context(RC):
        yield


def figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of axes in a grid, row by row, that belongs to no window and no global list."""
    made = Figure(figsize=(width, height), layout="constrained")
    axes = made.subplots(rows, columns, squeeze=False)
    return made, list(axes.flat)


def save_figure(made: Figure, path: Path) -> None:
    """Write a figure as `.svg`, `.pdf` or `.png`, by the ending; whole or not at all, and the same every
    time."""
    kind = path.suffix.removeprefix(".")
    if kind not in ("svg", "pdf", "png"):
        raise InputError(f"figures are written as .svg, .pdf or .png; {path} ends in {path.suffix!r}")
    with files.replacing(path) as file:
        file.write(figure_bytes(made, kind))


def figure_bytes(made: Figure, kind: str) -> bytes:
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[kind]
    buffer = io.BytesIO()
    with styled():
        made.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()
