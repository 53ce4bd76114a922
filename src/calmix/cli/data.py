"""`calmix data`"""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calmix.errors import printable
from calmix.progress import Display, Progress
from calmix.sources.catalogue import Entry, download, inventory


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
    args = tyro.cli(Data, args=arguments, prog="calmix data")
    if args.download:
        with Display() as display:

            def report(file: str, done: int, total: int) -> None:
                display(Progress(file, done, total or done or 1))

            folder = download(args.download, args.data_root, progress=report)
        print(printable(folder))
        return
    entries = inventory(args.data_root)
    if args.json:
        print(json.dumps([_plain(entry) for entry in entries], indent=2))
        return
    table = Table("data set", "state")
    for name in ("where", "size", "to do"):
        table.add_column(name, overflow="fold")
    for entry in entries:
        where = str(entry.folder) if entry.folder else "\n".join(map(str, entry.searched)) or "built in"
        size = f"{entry.size / 1e6:,.0f} MB" if entry.size else ""
        todo = "" if entry.state == "present" else "\n".join(filter(None, (entry.problem, _remedy(entry))))
        table.add_row(entry.name, entry.state, Text(printable(where)), size, Text(printable(todo)))
    Console().print(table)


def _plain(entry: Entry) -> dict[str, object]:
    folder = str(entry.folder) if entry.folder else None
    looked = [str(path) for path in entry.searched]
    return {
        **{"name": entry.name, "state": entry.state, "found": folder, "looked": looked},
        **{"size": entry.size, "problem": entry.problem, "remedy": _remedy(entry)},
    }


def _remedy(entry: Entry) -> str:
    """The command that gets the data set, in place of the function that the library names."""
    downloadable = entry.remedy and entry.name != "folder"
    return f"`calmix data --download {entry.name}` gets it" if downloadable else entry.remedy
