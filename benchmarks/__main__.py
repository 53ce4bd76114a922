"""`python -m benchmarks [NAME ...]`: every file of this folder that has `rows()`, or those named."""

import importlib
import pkgutil
import sys

import torch
from rich.console import Console
from rich.table import Table

import benchmarks
from calmix.memory import keep_freed_memory


def main(names: list[str]) -> int:
    torch.set_num_threads(1)
    keep_freed_memory()  # as the commands do
    found = sorted(
        m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in {"__main__", "timing"}
    )
    if unknown := set(names) - set(found):
        print(
            f"no benchmark called {', '.join(sorted(unknown))}; there are: {', '.join(found)}",
            file=sys.stderr,
        )
        return 2
    broken = 0
    console = Console()
    for name in names or found:
        table = Table("measured", "value", "unit", "limit", "", title=name, title_justify="left")
        for row in importlib.import_module(f"benchmarks.{name}").rows():
            broken += not row.holds
            verdict = "" if not row.limit else "[green]kept" if row.holds else "[red]BROKEN"
            table.add_row(row.name, f"{row.value:,.4g}", row.unit, row.limit, verdict)
        console.print(table)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
