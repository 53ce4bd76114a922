"""`calmix report`"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from calmix import files
from calmix.errors import printable
from calmix.progress import Display, Finished, Progress, Reporter, ignore
from calmix.runs.folder import find_runs
from calmix.study.results import Results, read_results

if TYPE_CHECKING:
    from calmix.report.story import Story


@dataclass(frozen=True)
class Report:
    """Write one page with the tables and figures of many runs; it needs no network and can be sent by mail.

    Example: calmix report runs --out report.html --figures figures
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, or folders of runs."""
    out: Path = Path("report.html")
    """The page to write."""
    figures: Path | None = None
    """Folder for each figure as SVG, PDF and PNG."""


def main(arguments: list[str]) -> None:
    args = tyro.cli(Report, args=arguments, prog="calmix report")
    with Display() as display:
        results = read_results(find_runs(args.runs, reporter=display))
        written = write_report(results, args.out, figures=args.figures, reporter=display)
    more = f" and {len(written) - 1} files in {args.figures}" if args.figures else ""
    print(printable(f"written: {args.out}{more}"))


def write_report(
    results: Results,
    out: Path,
    *,
    figures: Path | None = None,
    story: "Story | None" = None,
    title: str = "calmix report",
    reporter: Reporter = ignore,
) -> list[Path]:
    """Write the page of `results`, and with `figures` each figure as SVG, PDF and PNG; the paths written. A
    `story` comes first on the page."""
    from calmix.paper.claims import judge_claims
    from calmix.paper.claims_figures import claims_figures
    from calmix.paper.numbers import published
    from calmix.paper.page import claims_table
    from calmix.report.figures import CaptionedFigure
    from calmix.report.gallery import figure_count, standard_figures
    from calmix.report.page import runs_page
    from calmix.report.style import FORMATS, save_figure

    written = [out]
    expected = 1 + figure_count(results)
    judged = judge_claims(results)
    judged_any = any(word != "not run" for claim in judged for word in claim.counts)

    def drawn() -> Iterator[CaptionedFigure]:
        shown = [next(claims_figures(judged))] if judged_any else []
        for place, captioned in enumerate(itertools.chain(shown, standard_figures(results))):
            reporter(Progress("figures", place, max(expected, place + 1), captioned.title))
            if figures is not None:
                figures.mkdir(parents=True, exist_ok=True)
                for ending in FORMATS:
                    written.append(figures / f"{captioned.name}.{ending}")
                    save_figure(captioned.figure, written[-1])
            yield captioned
        reporter(Finished("figures", ""))

    claims = claims_table(judged) if judged_any else None
    page = runs_page(results, drawn(), claims=claims, published=published, title=title, story=story)
    with files.replacing(out) as file:
        file.write(page.encode(errors="backslashreplace"))
    return written
