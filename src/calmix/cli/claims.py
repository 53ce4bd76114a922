"""`calmix claims`"""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from calmix import data
from calmix.errors import one_of
from calmix.paper.claims import claims_table, main_dataset
from calmix.paper.study import Study
from calmix.run_folder import find_runs


@dataclass(frozen=True)
class Claims:
    """Judge the paper's 18 claims on evaluated runs: each holds, does not hold, is undecided, or was not run.

    Example: calmix claims --runs runs --dataset digits

    Intervals are 95 %: the test images resampled, the same for both sides of a comparison; with several
    seeds, the spread over them too. One seed leaves out what another training would change.
    """

    runs: Path = Path("runs")
    """Folder of runs."""
    dataset: str | None = None
    """Data set to judge them on; by default the one with the most runs."""
    json: bool = False
    """Print the claims as JSON, with every comparison."""


def main(arguments: list[str]) -> None:
    wish = tyro.cli(Claims, args=arguments, prog="calmix claims")
    if wish.dataset is not None:
        one_of("dataset", wish.dataset, data.NAMES)
    runs = find_runs([wish.runs])
    judged = claims_table(runs, wish.dataset)
    if wish.json:
        print(json.dumps([claim.record() for claim in judged], indent=2))
        return
    study = Study.of(runs, wish.dataset or main_dataset(runs))
    console = Console()
    others = f"; {study.left_out} runs of other regimes are left out" if study.left_out else ""
    console.print(f"{study.dataset}: {study.regime or 'no evaluated run'}{others}")
    table = Table("", "claim", "verdict", "evidence")
    for claim in judged:
        table.add_row(str(claim.number), claim.claim, claim.verdict, "\n".join(claim.lines))
    console.print(table)
