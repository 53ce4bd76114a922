"""`calmix report`"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from calmix.errors import InputError
from calmix.paper.claims import NOT_RUN, claims_table
from calmix.paper.claims_page import claims_markup
from calmix.report.page import write_page
from calmix.run_folder import find_runs


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
    """Folder for each figure as PDF and PNG."""


def main(arguments: list[str]) -> None:
    chosen = tyro.cli(Report, args=arguments, prog="calmix report")
    if not chosen.runs:
        raise InputError("give a run folder, or a folder of runs")
    runs = find_runs(list(chosen.runs))
    judged = claims_table(runs)
    claims = claims_markup(judged) if any(claim.verdict != NOT_RUN for claim in judged) else None
    written = write_page(runs, chosen.out, figures=chosen.figures, claims=claims)
    more = f" and {len(written) - 1} files in {chosen.figures}" if chosen.figures else ""
    print(f"written: {chosen.out}{more}")
