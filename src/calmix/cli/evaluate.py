"""`calmix evaluate`"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calmix import metrics
from calmix.corruptions import AUTHORS_CIFAR100, CORRUPTIONS, frost_source
from calmix.errors import InputError, printable
from calmix.progress import Display, Message, Reporter, ignore, within
from calmix.records import to_json
from calmix.runs.api import use_given
from calmix.runs.evaluate import evaluate
from calmix.runs.folder import Run, find_runs
from calmix.runs.summary import Summary


@dataclass(frozen=True)
class Evaluate:
    """Predict with trained runs and compute every metric for members and pool; predictions are made once
    and kept.

    Example: calmix evaluate runs/digits-deep-camixup-seed0-0123456789 --corruptions
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, or folders of runs."""
    corruptions: bool = False
    """Also under the 15 corruptions at 5 severities."""
    corrupted: Path | None = None
    """Folder of corrupted images, official or written by `calmix corrupt`; otherwise they are generated."""
    authors_list: bool = False
    """The 17 types of the authors' CIFAR-100-C instead of the usual 15."""
    data_root: Path | None = None
    """Where data sets are; by default the environment's CALMIX_DATA, then the user's cache."""
    device: str = "cpu"
    """Where to compute: cpu, cuda, ..."""
    network: str | None = None
    """file.py:make that stands for the recipe's network, where its file is elsewhere or has changed."""
    dataset: str | None = None
    """.npz file, folder or file.py:load that stands for the recipe's data, where they are elsewhere."""
    json: bool = False
    """Print the summaries as JSON."""


def main(arguments: list[str]) -> None:
    args = tyro.cli(Evaluate, args=arguments, prog="calmix evaluate")
    types: tuple[str, ...] = ()
    if args.corruptions or args.corrupted or args.authors_list:
        types = AUTHORS_CIFAR100 if args.authors_list else CORRUPTIONS
    summaries, errors = [], []
    runs = find_runs(args.runs, reporter=Display())
    for run in runs:
        with Display() as display:
            reporter: Reporter = ignore if args.json else within(run.folder.name, display)
            if "frost" in types and args.corrupted is None:
                reporter(Message(f"frost: {frost_source()}"))
            try:
                use_given(run.recipe, reporter, network=args.network, dataset=args.dataset)
                summary = evaluate(
                    run,
                    corruptions=types,
                    corrupted_folder=args.corrupted,
                    reporter=reporter,
                    data_root=args.data_root,
                    device=args.device,
                )
            except InputError as error:
                if len(runs) == 1:
                    raise
                errors.append(error)
                display(Message(f"{error}; this run is left out"))
                continue
        summaries.append(summary)
        if not args.json:
            print_summary(run, summary, types)
    if args.json:
        print(to_json([summary.numbers() for summary in summaries]))
    if errors:
        raise InputError(f"{len(errors)} of {len(runs)} runs could not be evaluated")


def print_summary(run: Run, summary: Summary, types: tuple[str, ...] = ()) -> None:
    """A run's numbers as a table: the pool with its intervals, beside the mean of its members."""
    clean = summary.clean
    title = Text(printable(run.folder.name))
    table = Table("", "pool", "95 % interval", "members' mean", title=title, title_justify="left")
    for name in metrics.SCALARS:
        ends = [_text(name, end) for end in clean.intervals.get(name, ())]
        has_mean = bool(clean.members) and hasattr(clean.members[0], name)
        mean = _text(name, clean.members_mean(name)) if has_mean else ""
        table.add_row(name, _text(name, getattr(clean.pool, name)), " .. ".join(ends), mean)
    console = Console()
    console.print(table)
    if clean.scaled and summary.temperature is not None:
        ece = f"{100 * clean.scaled.ece:.2f} %"
        console.print(f"with temperature {summary.temperature:.3f}, fitted on validation data: ECE {ece}")
    kinds = types or CORRUPTIONS
    accuracy, ece_mean = (summary.corrupted_mean(name, types=kinds) for name in ("accuracy", "ece"))
    if accuracy is not None and ece_mean is not None:
        over = "corrupted"
        if set(kinds) != set(CORRUPTIONS):
            over += f", the authors' {len(kinds)} types"
        console.print(f"{over}: accuracy {100 * accuracy:.2f} %  ECE {100 * ece_mean:.2f} %")
    console.print(f"folder: {printable(run.folder)}", soft_wrap=True, markup=False)


def _text(name: str, value: float) -> str:
    return f"{value:.4g}" if name in ("nll", "brier", "skce") else f"{100 * value:.2f} %"
