"""Reading predictions from a CSV file of logits and labels beside pandas and pyarrow, on one thread.

These only make a table of numbers; `load_predictions` also finds out which column is what, and checks them.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv

import calmix
from benchmarks.timing import Row, cpu_seconds

VALUES = 2_000_000


def rows(full: bool = False) -> Iterator[Row]:
    values = VALUES if full else VALUES // 2
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for classes in (10, 100, 1000):
            path = Path(folder) / f"{classes}.csv"
            write(path, values // classes, classes)
            ours, pandas, arrow = cpu_seconds(
                lambda path=path: calmix.load_predictions(path, values="logits"),  # type: ignore[misc]
                lambda path=path: pd.read_csv(path),  # type: ignore[misc]
                lambda path=path: pyarrow.csv.read_csv(  # type: ignore[misc]
                    path, read_options=pyarrow.csv.ReadOptions(use_threads=False)
                ),
                repeats=3,
            )
            seconds[classes] = ours
            name = f"CSV of {values // classes:,} x {classes:,} logits"
            yield Row(f"{name}, pandas.read_csv", pandas, "s")
            yield Row(f"{name}, pyarrow.csv.read_csv", arrow, "s")
            yield Row(f"{name}, load_predictions", ours, "s")
            before = 7.0 if classes == 10 else None
            yield Row("  relative to pandas", ours / pandas, "x", at_most=1.5, before=before)
            yield Row("  relative to pyarrow", ours / arrow, "x", at_most=1.5)
    yield Row("1,000 columns / 100, as many values", seconds[1000] / seconds[100], "x", at_most=1.5)


def write(path: Path, examples: int, classes: int) -> None:
    draw = np.random.default_rng(0)
    table = pd.DataFrame(
        draw.normal(size=(examples, classes)).round(6), columns=[f"logit_{k}" for k in range(classes)]
    )
    table["label"] = draw.integers(0, classes, examples)
    table.to_csv(path, index=False)
