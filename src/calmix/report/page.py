"""Pages: single HTML files that need no network. Whatever users name is escaped, never run."""

from collections.abc import Iterable
from typing import Any

import jinja2
from markupsafe import Markup

from calmix.report.figures import CaptionedFigure
from calmix.report.story import Story
from calmix.report.style import styled
from calmix.report.svg import svg_text
from calmix.report.tables import Published, Table, comparison, runs_table
from calmix.runs.command import train_command
from calmix.study.quantities import COLUMNS
from calmix.study.results import Results

TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("calmix.report", "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def runs_page(
    results: Results,
    figures: Iterable[CaptionedFigure],
    *,
    claims: Table | None = None,
    published: Published | None = None,
    title: str = "calmix report",
    story: Story | None = None,
) -> str:
    """The page of many runs: claims, means over seeds, each run, figures, and the recipes to repeat them.

    A `story` comes first: what the runs show, in sentences and a picture.
    """
    groups = results.groups()
    several = len(groups) < len(results)  # seeds of one recipe
    first = ("data set", "ensemble", "augmentation", "runs")
    shown = [quantity for quantity in COLUMNS if quantity.values(results)]
    return render(
        "report.html",
        title=title,
        story=story,
        claims=claims,
        published=published is not None,
        means=comparison("", groups, shown, published=published, first=first) if several else None,
        runs_table=runs_table(results, published=None if several else published),
        figures=inline(figures),
        runs=results,
        command=train_command,
    )


def render(template: str, **context: Any) -> str:
    """A page from one of the templates, in which every text is escaped."""
    return TEMPLATES.get_template(template).render(**context)


def inline(figures: Iterable[CaptionedFigure], *, first: int = 0) -> list[dict[str, Any]]:
    """Figures as SVG, one after the other, so that they need not all be in memory; `first` is the number of
    those that the page has already."""
    texts = []
    for place, shown in enumerate(figures, start=first):
        with styled():
            text = svg_text(shown.figure, title=shown.title, alt=shown.alt, name=f"f{place}", themed=True)
        texts.append({"svg": Markup(text), "title": shown.title, "caption": shown.caption})
    return texts
