"""A figure as a vector graphic inside a page, in its colours, with a text for who cannot see it."""

import html
import io
import re

import matplotlib as mpl
from matplotlib.figure import Figure

from calmix.report.markup import Html
from calmix.report.style import styled

# Ink, grid and notes take the page's colours, so that a figure is as readable in the dark as in the light.
COLOURS = {
    "#000000": "currentColor",
    "#333333": "currentColor",
    "#555555": "var(--muted)",
    "#dddddd": "var(--line)",
}


def inline_svg(made: Figure, *, title: str, alt: str, name: str) -> Html:
    """The figure as an `<svg>` element; `name` keeps its ids apart from those of other figures."""
    buffer = io.BytesIO()
    # Letters as letters: a third of the size of outlines, and they can be selected and read aloud.
    with styled(), mpl.rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):
        made.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue().decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.S)
    for colour, instead in COLOURS.items():
        text = re.sub(colour, instead, text, flags=re.I)
    used = set(re.findall(r'(?:url\(|href=")#([\w-]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'(url\(|href=")#([\w-]+)', rf"\1#{name}-\2", text)
    text = re.sub(r">\s+<", "><", text)
    text = re.sub(r"<[^>]+>", _rounded, text)
    box = re.search(r'viewBox="[^"]*"', text)
    assert box, "matplotlib writes the size of every figure"
    width = round(72 * made.get_figwidth())  # on a narrow screen it scrolls rather than become unreadable
    style = f'style="min-width:{width}px" role="img"'
    head = f'<svg {box[0]} {style} aria-label="{html.escape(alt)}">'
    return Html(f"{head}<title>{html.escape(title)}</title>{text[text.index('>') + 1 :].strip()}")


def _rounded(tag: re.Match[str]) -> str:
    """A tag with its numbers in hundredths of a point; the letters between tags are left alone."""
    return re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", tag[0])
