"""`calmix data`"""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from calmix import data
from calmix.progress import Display, Step


@dataclass(frozen=True)
class Data:
    """List the data sets: what is here, missing or damaged, where it was looked for, how to get it.

    Example: calmix data --download cifar10
    """

    download: str | None = None
    """Get this set from its publisher: resumed where it broke off, verified, unpacked."""
    data_root: Path | None = None
    """Where data sets are; by default the environment's CALMIX_DATA, then the user's cache."""
    json: bool = False
    """Print the list as JSON."""


def main(arguments: list[str]) -> None:
    chosen = tyro.cli(Data, args=arguments, prog="calmix data")
    if chosen.download:
        with Display() as display:
            folder = data.download(
                chosen.download,
                chosen.data_root,
                progress=lambda file, done, total: display.step(Step(str(file), done, total or done or 1)),
            )
        print(folder)
        return
    entries = data.inventory(chosen.data_root)
    if chosen.json:
        print(json.dumps([_plain(entry) for entry in entries], indent=2))
        return
    table = Table("data set", "state")
    for name in ("where", "size", "to do"):
        table.add_column(name, overflow="fold")
    for entry in entries:
        where = str(entry.found) if entry.found else "\n".join(map(str, entry.looked)) or "built in"
        size = f"{entry.size / 1e6:,.0f} MB" if entry.size else ""
        todo = "" if entry.state == "present" else "\n".join(filter(None, (entry.problem, entry.remedy)))
        table.add_row(entry.name, entry.state, where, size, todo)
    Console().print(table)


def _plain(entry: data.Entry) -> dict[str, object]:
    found = str(entry.found) if entry.found else None
    looked = [str(path) for path in entry.looked]
    return {
        **{"name": entry.name, "state": entry.state, "found": found, "looked": looked},
        **{"size": entry.size, "problem": entry.problem, "remedy": entry.remedy},
    }
