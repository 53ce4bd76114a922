"""`python -m benchmarks [NAME ...]`: run all benchmarks, or those given."""

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
    available = sorted(
        m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in {"__main__", "timing"}
    )
    if unknown := set(names) - set(available):
        print(
            f"unknown benchmark {', '.join(sorted(unknown))}; valid: {', '.join(available)}",
            file=sys.stderr,
        )
        return 2
    exceeded = 0
    console = Console()
    for name in names or available:
        table = Table("measured", "value", "unit", "limit", "", title=name, title_justify="left")
        for row in importlib.import_module(f"benchmarks.{name}").rows():
            exceeded += not row.within_limit
            result = "" if not row.limit else "[green]ok" if row.within_limit else "[red]EXCEEDED"
            table.add_row(row.name, f"{row.value:,.4g}", row.unit, row.limit, result)
        console.print(table)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
