"""Compact SVG of a figure: letters as letters, numbers to hundredths, the same every time."""

import html
import io
import re
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# Ink, grid, notes and white take the page's colours, so that a figure can be read in the dark too.
THEME = {
    "#000000": "currentColor",
    "#333333": "currentColor",
    "#555555": "var(--muted)",
    "#dddddd": "var(--line)",
    "#bbbbbb": "var(--line)",
    "#ffffff": "var(--paper)",
}
ROOT = 'stroke-linejoin="round" font-family="sans-serif"'


def svg_text(figure: Figure, *, title: str = "", alt: str = "", name: str = "", themed: bool = False) -> str:
    """The figure as an `<svg>` element: plain for a file, or `themed` for a page. Call it within `styled()`.

    On a page it has the page's colours (`currentColor`, `--muted`, `--line`, `--paper`; others become lighter
    by the share `--lift`) and scales with its column; `alt` describes it to readers who cannot see it, and
    `name` keeps its ids apart from those of other figures.
    """
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "calmix", "font.family": "sans-serif"}
    buffer = io.StringIO()
    with mpl.rc_context(settings):
        _lay_out(figure)
        figure.savefig(buffer, format="svg", transparent=themed, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, count=1, flags=re.S)  # it says ROOT
    used = set(re.findall(r'(?:url\(|href=")#([\w-]+)', text))
    prefix = f"{name}-" if name else ""
    text = re.sub(r"<[^>]+>", lambda tag: _compact(tag[0], used, prefix, themed), text)
    text = re.sub(r">\s+<", "><", text)
    opening, rest = text.split(">", 1)
    if themed:
        box = re.search(r'viewBox="[^"]*"', opening)
        assert box, "matplotlib writes the size of every figure"
        # A narrow screen scrolls it rather than make it unreadable; a wide one makes it only so much larger.
        width = 72 * figure.get_figwidth()
        limits = f"min-width:{width:.0f}px;max-width:{1.7 * width:.0f}px"
        opening = f'<svg {box[0]} style="{limits}" fill="currentColor"'
    if alt:
        opening += f' role="img" aria-label="{html.escape(alt)}"'
    heading = f"<title>{html.escape(title)}</title>" if title else ""
    return f"{opening} {ROOT}>{heading}{rest.strip()}"


def _lay_out(figure: Figure) -> None:
    """Lay the figure out once and for all: otherwise every file that is saved draws it twice, first to lay it
    out."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)


def _compact(tag: str, used: set[str], prefix: str, themed: bool) -> str:
    """A tag without what nothing needs; the letters between tags are left alone."""
    tag = re.sub(r' id="([^"]+)"', lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "", tag)
    tag = re.sub(r'(url\(|href=")#', rf"\1#{prefix}", tag)
    tag = re.sub(r" ?font-family: [^;\"]*;?", "", tag)
    tag = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag)
    tag = tag.replace("\n", "")
    return re.sub(r"(?<=: )#[0-9a-f]{6}\b", _themed, tag) if themed else tag


def _themed(colour: re.Match[str]) -> str:
    return THEME.get(colour[0]) or f"color-mix(in oklab, {colour[0]}, white var(--lift))"
