"""`calmix evaluate`"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from calmix.audit.report import plain_json
from calmix.corruptions import AUTHORS_CIFAR100, CORRUPTIONS, frost_source
from calmix.evaluate import METRICS, evaluate
from calmix.progress import Display
from calmix.run_folder import Run, find_runs


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
    """Folder of corrupted images, official or written by `calmix corrupt`; otherwise they are made on the
    fly."""
    authors_list: bool = False
    """The 17 types of the authors' CIFAR-100-C instead of the usual 15."""
    data_root: Path | None = None
    """Where data sets are; by default the environment's CALMIX_DATA, then the user's cache."""
    device: str = "cpu"
    """Where to compute: cpu, cuda, ..."""
    json: bool = False
    """Print the summaries as JSON."""


def main(arguments: list[str]) -> None:
    chosen = tyro.cli(Evaluate, args=arguments, prog="calmix evaluate")
    names: tuple[str, ...] = ()
    if chosen.corruptions or chosen.corrupted or chosen.authors_list:
        names = AUTHORS_CIFAR100 if chosen.authors_list else CORRUPTIONS
    summaries = []
    for run in find_runs(list(chosen.runs)):
        with Display() as display:
            if "frost" in names and chosen.corrupted is None:
                display.note(f"frost: {frost_source()}")
            summary = evaluate(
                run,
                listener=display,
                root=chosen.data_root,
                corruptions=names,
                corrupted_root=chosen.corrupted,
                device=chosen.device,
            )
        summaries.append(summary)
        if not chosen.json:
            print_summary(run, summary)
    if chosen.json:
        print(plain_json(summaries))


def print_summary(run: Run, summary: dict[str, Any]) -> None:
    """A run's numbers as a table: the pool with its intervals, beside the mean of its members."""
    clean = summary["clean"]
    members = clean["members"]
    table = Table("", "pool", "95 % interval", "members' mean", title=run.folder.name, title_justify="left")
    for name in METRICS:
        low, high = clean["pool"][f"{name}_interval"]
        mean = sum(m[name] for m in members) / len(members) if name in members[0] else None
        table.add_row(
            name,
            _show(name, clean["pool"][name]),
            f"{_show(name, low)} .. {_show(name, high)}",
            _show(name, mean),
        )
    console = Console()
    console.print(table)
    if scaled := summary["temperature"]:
        temperature, ece = f"{scaled['temperature']:.3f}", f"{100 * scaled['ece']:.2f} %"
        console.print(f"with temperature {temperature}, fitted on validation data: ECE {ece}")
    if "cA" in summary:
        console.print(f"corrupted: accuracy {summary['cA']:.2f} %  ECE {summary['cECE']:.2f} %")
    console.print(f"folder: {run.folder}", soft_wrap=True)


def _show(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if name in ("nll", "brier", "skce") else f"{100 * value:.2f} %"
