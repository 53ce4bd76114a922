"""`calmix claims`"""

import shlex
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from calmix import data
from calmix.errors import one_of
from calmix.progress import Display
from calmix.records import to_json
from calmix.runs.folder import find_runs


@dataclass(frozen=True)
class Claims:
    """Judge the paper's claims on evaluated runs, part by part: shown, consistent, undecided, contradicted,
    or not run.

    Example: calmix claims --runs runs --dataset digits

    A part is a comparison of one ensemble on one data set. Intervals are 95 %: the test images, the same for
    both sides of a comparison, and the spread over seeds, which the methods of a regime share.
    """

    runs: Path = Path("runs")
    """Folder of runs, or of evidence."""
    dataset: str | None = None
    """Judge on this data set alone; by default on all that have runs."""
    claims: str | None = None
    """Judge claims of your own instead: file.py or file.py:NAME, a `Claim` or a list of them (by default
    CLAIMS). `python -c "help('calmix.paper.own_claims')"` shows how one is written."""
    json: bool = False
    """Print the claims as JSON, with every comparison."""
    render: Path | None = None
    """Folder, or .md file, for the results' first page: the claims as a matrix, pathology and cure, and what
    is contradicted."""


def main(arguments: list[str]) -> None:
    from calmix.paper.claims import claims_record, judge_claims
    from calmix.paper.own_claims import load_claims
    from calmix.paper.page import claim_lines
    from calmix.paper.regime import main_regimes
    from calmix.paper.story import write_story
    from calmix.study.results import read_results

    args = tyro.cli(Claims, args=arguments, prog="calmix claims")
    own = None if args.claims is None else load_claims(args.claims)
    results = read_results(find_runs([args.runs], reporter=Display()))
    if args.dataset is not None:
        names = dict.fromkeys(result.recipe.dataset for result in results)
        one_of("dataset", args.dataset, tuple(names) or data.NAMES)
    if args.render is not None:
        target = args.render if args.render.suffix == ".md" else args.render / "README.md"
        command = f"calmix claims {shlex.join(arguments)}"
        with Display() as display:
            written = write_story(results, target, command=command, reporter=display)
        print(f"written: {target} and {len(written) - 1} figures")
        return
    judged = judge_claims(results, own, dataset=args.dataset)
    if args.json:
        print(to_json(claims_record(judged)))
        return
    console = Console()
    for regime in main_regimes(results):
        others = f"; {regime.left_out} runs of other regimes are left out" if regime.left_out else ""
        console.print(f"{regime.dataset}: {regime.name or 'no evaluated run'}{others}", markup=False)
    for claim in judged:
        console.print(f"\n{claim.id}. {claim.text}: {claim.line}", markup=False, style="bold")
        for line in claim_lines(claim):
            console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
