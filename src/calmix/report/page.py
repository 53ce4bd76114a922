"""One page for many runs: a single file that needs no network and shows whatever the runs have."""

import string
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from pathlib import Path

from calmix import files
from calmix.report.command import train_command
from calmix.report.markup import Html, join, tag
from calmix.report.plates import Plate, draw_plates
from calmix.report.results import Result, read_results
from calmix.report.style import save_figure
from calmix.report.tables import means_table, runs_table
from calmix.report.vector import inline_svg
from calmix.run_folder import Run


def document(title: str, *sections: str) -> str:
    """A whole page: head, style and behaviour from the template, around sections of markup."""
    template = string.Template(resources.files("calmix.report").joinpath("page.html").read_text("utf-8"))
    return template.substitute(title=join(title), body=join(*sections))


def section(title: str, *children: str) -> Html:
    return tag("section", None, tag("h2", None, title), *children)


def figures_section(title: str, plates: Iterable[Plate]) -> Html:
    """Figures with their captions; no section where there are none."""
    shown = []
    for i, plate in enumerate(plates):
        drawn = inline_svg(plate.figure, title=plate.title, alt=plate.alt, name=f"f{i}")
        caption = tag("figcaption", None, tag("b", None, plate.title), plate.caption)
        shown.append(tag("figure", None, tag("div", {"class": "scroll"}, drawn), caption))
    return section(title, tag("div", {"class": "figures"}, *shown)) if shown else Html("")


def page(
    runs: Sequence[Run],
    *,
    claims: Html | None = None,
    title: str = "calmix report",
    each_plate: Callable[[Plate], None] = lambda plate: None,
) -> str:
    """The page of `runs`; `claims` is markup to come before their numbers, `each_plate` sees every figure."""
    results = read_results(runs)

    def plates() -> Iterable[Plate]:
        for plate in draw_plates(results):
            each_plate(plate)
            yield plate

    note = (
        f"{len(results)} runs. The best of each data set is marked; the paper's numbers are from its full "
        "size. A click on a column's name sorts."
    )
    means = means_table(results)
    return document(
        title,
        tag("p", {"class": "note"}, note),
        section("What the paper claims, and what was found", claims) if claims else Html(""),
        section("Means over seeds", means) if means else Html(""),
        section("Runs", runs_table(results)),
        figures_section("Figures", plates()),
        section("Recipes", *(_recipe(i, result) for i, result in enumerate(results))),
    )


def write_page(
    runs: Sequence[Run], out: Path, *, figures: Path | None = None, claims: Html | None = None
) -> list[Path]:
    """Write the page, and with `figures` each figure as PDF and PNG; the paths written."""
    written: list[Path] = []

    def save(plate: Plate) -> None:
        if figures is None:
            return
        figures.mkdir(parents=True, exist_ok=True)
        for ending in ("pdf", "png"):
            written.append(figures / f"{plate.name}.{ending}")
            save_figure(plate.figure, written[-1])

    text = page(runs, claims=claims, each_plate=save)
    with files.replacing(out) as file:
        file.write(text.encode())
    return [out, *written]


def _recipe(i: int, result: Result) -> Html:
    """A run: what it lacks, the command that makes it again, and its recipe, both to copy."""
    parts = [tag("summary", None, result.run.folder.name, _lacks(result))]
    for text in (train_command(result.recipe), result.recipe.to_json()):
        parts += [tag("button", {"class": "copy", "type": "button"}, "Copy"), tag("pre", None, text)]
    return tag("details", {"id": f"run-{i}"}, *parts)


def _lacks(result: Result) -> Html:
    if not result.missing:
        return Html("")
    return tag("span", {"class": "note"}, f" lacks {', '.join(result.missing)}")
