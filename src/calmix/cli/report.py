"""`calmix report`"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from calmix.errors import InputError
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
    written = write_page(find_runs(list(chosen.runs)), chosen.out, figures=chosen.figures)
    more = f" and {len(written) - 1} files in {chosen.figures}" if chosen.figures else ""
    print(f"written: {chosen.out}{more}")
