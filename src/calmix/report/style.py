"""Style of figures: one colour for each augmentation everywhere, safe for colour-blind readers."""

import contextlib
import io
import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from calmix import files
from calmix.errors import InputError, one_of
from calmix.report.svg import svg_text
from calmix.study.results import Group

ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, BLACK, GREY = "#0072B2", "#D55E00", "#CC79A7", "#000000", "#767676"
INK, NOTE = "#333333", "#555555"  # of lines between data, and of words beside them

# By `Recipe.augment`. The paper's red, blue, green and purple keep their meaning.
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
OTHERS = ("#882255", "#999933", "#332288", "#DDCC77", "#44AA99", "#661100")  # of other augmentations
SPARE = (VERMILION, BLUE, GREEN, ORANGE, PURPLE, SKY, BLACK, GREY)  # of what is no augmentation
SMOOTHING = "label-smoothing"

RC: Any = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # nothing is drawn above the axes; looking for it takes a tenth of a page's time
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "figure.titlesize": 10.0,
    "legend.frameon": False,
    "pdf.fonttype": 42,
}
LETTER, LINE = 0.072, 0.19  # inches of a letter, and of a line of them
HANDLE = 0.62  # inches of a legend's mark with the space around it


def colour(augment: str, place: int = 0) -> str:
    """The colour of an augmentation, whatever the smoothing of its labels; of an unusual one by its place.

    >>> colour("mixup+label-smoothing-0.1") == colour("mixup") == BLUE
    True
    """
    parts = [part for part in augment.split("+") if not part.startswith(SMOOTHING)]
    return COLOURS.get("+".join(parts), OTHERS[place % len(OTHERS)]) if parts else GREY


def series_label(group: Group) -> str:
    """The augmentation, and how the recipe differs from others with the same one."""
    return ", ".join(filter(None, (group.recipe.augmentation.title, group.differs)))


def series_colours(groups: Iterable[Group], drawn: Iterable[Group] | None = None) -> dict[str, str]:
    """The colour of each label: its augmentation's, and a lighter one for each further label of that colour.

    Different labels have different colours, so that a legend can name them. With `drawn` only its labels are
    returned, in the colours that they have among all groups.
    """
    groups = list(groups)
    labels_drawn = {series_label(group) for group in (groups if drawn is None else drawn)}
    augments = {series_label(group): group.augment for group in groups}
    base = {label: colour(augment, place) for place, (label, augment) in enumerate(augments.items())}
    alike: dict[str, list[str]] = {}
    for label, shade in base.items():
        alike.setdefault(shade, []).append(label)
    return {
        label: _lighter(shade, 0.75 * place / len(labels))
        for shade, labels in alike.items()
        for place, label in enumerate(labels)
        if label in labels_drawn
    }


def _lighter(shade: str, share: float) -> str:
    red, green, blue = (share + (1 - share) * part for part in to_rgb(shade))
    return to_hex((red, green, blue)).upper()


@dataclass(frozen=True, eq=False)
class CaptionedFigure:
    """`name` is for files, `caption` explains the figure, `alt` describes it to readers who cannot see it."""

    name: str
    title: str
    caption: str
    alt: str
    figure: Figure


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Draw with calmix's settings, leaving the caller's matplotlib as it was."""
    with mpl.rc_context(RC):
        yield


def figure(
    width: float,
    height: float,
    rows: int = 1,
    columns: int = 1,
    *,
    title: str = "",
    share: bool = False,
    height_ratios: Sequence[float] | None = None,
    width_ratios: Sequence[float] | None = None,
) -> tuple[Figure, list[Axes]]:
    """A figure that belongs to no window and no global list, and its axes row by row.

    Its title comes on top of the height. With `share` the axes of a row have one y axis, those of a column
    one x axis.
    """
    title = _wrapped(title, width - 0.3)
    drawing = Figure(figsize=(width, height + LINE * len(title.splitlines())), layout="constrained")
    if title:
        drawing.suptitle(title, x=0.01, ha="left")
    sharing: Any = {"sharex": "col", "sharey": "row"} if share else {}
    ratios: Any = {"height_ratios": height_ratios, "width_ratios": width_ratios}
    return drawing, list(drawing.subplots(rows, columns, squeeze=False, **sharing, **ratios).flat)


def add_legend(drawing: Figure, handles: Sequence[Any]) -> None:
    """A legend below all axes, so that it covers no data; it takes its height from nothing but itself."""
    width = drawing.get_figwidth()
    for handle in handles:
        handle.set_label(_wrapped(handle.get_label(), width - HANDLE))
    labels = [handle.get_label().splitlines() for handle in handles]
    longest = max(len(line) for lines in labels for line in lines)
    columns = max(1, min(len(handles), int(width / (HANDLE + LETTER * longest))))
    rows = math.ceil(len(handles) / columns) * max(map(len, labels))
    drawing.set_figheight(drawing.get_figheight() + LINE * rows)
    drawing.legend(handles=handles, loc="outside lower center", ncols=columns)


def plain(text: str) -> str:
    """Text as matplotlib shows it literally: between two dollars it would read mathematics."""
    return text.replace("$", r"\$")


def _wrapped(text: str, width: float) -> str:
    return plain(textwrap.fill(text, max(12, int(width / LETTER))))


FORMATS = ("svg", "pdf", "png")


def check_formats(formats: Sequence[str]) -> tuple[str, ...]:
    """Formats of figures, also joined with commas, each once.

    >>> check_formats(["svg,pdf", "png"])
    ('svg', 'pdf', 'png')
    """
    names = [name for words in formats for name in words.split(",") if name]
    for name in names:
        one_of("format of figures", name, FORMATS)
    return tuple(dict.fromkeys(names)) or ("svg",)


def save_figure(drawing: Figure, path: Path) -> None:
    """Write a figure as `.svg`, `.pdf` or `.png`, by the ending; whole or not at all, the same every time."""
    kind = path.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise InputError(f"figures are written as .svg, .pdf or .png; {path} ends in {path.suffix!r}")
    buffer = io.BytesIO()
    with styled():
        if kind == "svg":
            buffer.write(svg_text(drawing).encode())
        else:
            dates: Any = {"CreationDate": None} if kind == "pdf" else {}
            drawing.savefig(buffer, format=kind, dpi=160, metadata=dates)
    with files.replacing(path) as file:
        file.write(buffer.getvalue())
