"""Numbers of runs as plain records, for CSV and JSON: a row for each method, means over seeds beside their
spread."""

import csv
import io
import statistics
from collections.abc import Sequence
from typing import Any

from calmix.records import to_json
from calmix.study.quantities import Quantity
from calmix.study.results import Group

VERSION = 1


def group_rows(groups: Sequence[Group], quantities: Sequence[Quantity]) -> list[dict[str, Any]]:
    """A dictionary for each group: what it is, its number of runs, and of each quantity mean and standard
    deviation as fractions (None where it is unknown) and the number of runs that have it."""
    rows = []
    for group in groups:
        row: dict[str, Any] = {
            "dataset": group.recipe.dataset,
            "scale": group.recipe.scale,
            "ensemble": group.recipe.ensemble,
            "augment": group.augment,
            "recipe": group.differs,
            "runs": len(group.results),
        }
        for quantity in quantities:
            values = quantity.values(group.results)
            row[quantity.name] = statistics.fmean(values) if values else None
            row[f"{quantity.name}_sd"] = statistics.stdev(values) if len(values) > 1 else None
            row[f"{quantity.name}_n"] = len(values)
        rows.append(row)
    return rows


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """Comma-separated values with a header; unknown numbers are empty."""
    buffer = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(buffer, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def json_text(rows: Sequence[dict[str, Any]]) -> str:
    """`{"version": 1, "rows": [...]}`."""
    return to_json({"version": VERSION, "rows": list(rows)})
