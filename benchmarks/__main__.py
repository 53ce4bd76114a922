"""`python -m benchmarks [NAME ...]`: measure, print the tables, and write them to `docs/benchmarks.md`."""

import argparse
import math
import signal
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import LONG, NAMES, isolation, machine
from benchmarks.page import PAGE, Section, update
from benchmarks.timing import Row, number

SECONDS = 345.0  # of a run of all benchmarks that is not --full


def main(arguments: list[str]) -> int:
    """1 where a limit is exceeded or a benchmark is not complete, 2 for a name that does not exist."""
    args = _parser().parse_args(arguments)
    names = [name for name in (*NAMES, *LONG) if name in args.names] if args.names else list(NAMES)
    if machine.load() > 0.5:
        text = f"the machine is busy (load {machine.load():.1f}): ratios to wall-clock time will be off"
        print(text, file=sys.stderr)
    end = time.monotonic() + (math.inf if args.full or args.names else SECONDS)
    sections = []
    for place, name in enumerate(names, start=1):
        print(f"{name} ({place} of {len(names)})", file=sys.stderr, flush=True)
        left = min(end - time.monotonic(), args.seconds)
        sections.append(isolation.run(name, full=args.full, seconds=left, show=_show))
        _print(sections[-1])
        update(sections[-1:], args.page)
    return 0 if all(section.ok for section in sections) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    valid = (*NAMES, *LONG)
    parser.add_argument("names", nargs="*", choices=(*valid, []), metavar="NAME", help=", ".join(valid))
    parser.add_argument("--full", action="store_true", help="everything, however long it takes")
    parser.add_argument("--seconds", type=float, default=math.inf, help="at most so long for each benchmark")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to update")
    return parser


def _show(content: Row | str) -> None:
    """Progress: each row as it comes, on standard error."""
    if isinstance(content, Row):
        text = f"  {content.name}: {number(content.value)} {content.unit} {content.limit} {content.result}"
        print(text.rstrip(), file=sys.stderr, flush=True)


def _print(section: Section) -> None:
    title = f"{section.name}, {section.seconds:.0f} s"
    if section.failure:
        title += f", NOT COMPLETE: {section.failure}"
    table = Table("measured", "value", "unit", "limit", "", title=title, title_justify="left")
    for row in section.rows:
        colour = {"ok": "[green]", "exceeded": "[red]"}.get(row.result, "")
        table.add_row(row.name, number(row.value), row.unit, row.limit, f"{colour}{row.result}")
    console = Console()
    console.print(table)
    for part in section.content:
        if isinstance(part, str):
            console.print(part, markup=False, highlight=False)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the processes that measure end with this one
    sys.exit(main(sys.argv[1:]))
