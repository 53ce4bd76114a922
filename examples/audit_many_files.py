"""Metrics of predictions in many Parquet files, spread over the workers of a Ray cluster and merged exactly.

    python examples/audit_many_files.py predictions/*.parquet --values probs

No file is read whole, and what travels between workers are sums, whatever the number of examples. Metrics
that are sums over examples and fixed bins merge exactly: accuracy, NLL, Brier, ECE, SCE and the gap. Those of
bins of equal mass (ACE, TACE) need the order of all examples, and so do intervals by resampling: for these,
audit a sample of the rows.
"""

import argparse
import functools
from collections.abc import Sequence

from calmix import InputError, iter_predictions, metrics, pool


def summarise(path: str, values: str | None, rows: int = 65_536) -> metrics.Accumulator:
    """The sums of one file, read in blocks of rows."""
    total: metrics.Accumulator | None = None
    for block in iter_predictions(path, values, rows=rows):
        if total is None:
            total = metrics.Accumulator(block.logits.shape[2])
        total.update(pool(block.logits.double()), block.known_labels)
    assert total is not None  # a file without rows is refused
    return total


def summarise_all(paths: Sequence[str], values: str | None) -> metrics.Scores:
    """The metrics of all files together; Ray must be initialised."""
    import ray

    if not paths:
        raise InputError("give at least one file")
    task = ray.remote(summarise)
    parts = ray.get([task.remote(path, values) for path in paths])
    merged: metrics.Accumulator = functools.reduce(lambda total, part: total.merge(part), parts)
    return merged.compute()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--values", choices=["logits", "probs"])
    args = parser.parse_args()
    import ray

    ray.init()
    scores = summarise_all(args.paths, args.values)
    for name in ("examples", "accuracy", "nll", "brier", "ece", "sce", "gap"):
        print(f"{name:<10}{getattr(scores, name):>12.6g}")


if __name__ == "__main__":
    main()
