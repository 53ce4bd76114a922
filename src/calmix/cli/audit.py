"""`calmix audit`"""

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from calmix.auditing import audit, parse_condition
from calmix.errors import InputError
from calmix.predictions import Predictions, join_members, load_predictions
from calmix.progress import Display, ignore


@dataclass(frozen=True)
class Audit:
    """Judge the calibration of predictions from any framework: of the pool, of its members, of every class.

    Example: calmix audit runs/*/predictions/test.npz --html audit.html --fail-if "ece > 0.05"

    Exit code 0 whatever the verdict, 1 where a --fail-if holds, 2 for files that cannot be used.
    """

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Predictions (.npz, .npy, .csv, .parquet) of one ensemble; several files are its members."""
    values: Literal["logits", "probs"] | None = None
    """What the numbers are, where the file does not say."""
    group: bool = False
    """Judge the files' groups instead of their classes."""
    class_names: Path | None = None
    """Text file with the name of each class on a line of its own."""
    resamples: int = 1000
    """Resamples behind each interval."""
    seed: int = 0
    """Of resamples and folds."""
    json: bool = False
    """Print JSON and nothing else."""
    html: Path | None = None
    """Write a page with the diagrams too."""
    fail_if: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Exit with 1 where this holds: a name of the JSON (pool.gap), a comparison, a number. Repeatable."""


def main(arguments: list[str]) -> int:
    args = tyro.cli(Audit, args=arguments, prog="calmix audit")
    conditions = [parse_condition(text) for text in args.fail_if]
    predictions = load_members(args.files, args.values)
    names = read_names(args.class_names)
    with Display() as display:
        if names is not None:
            predictions = dataclasses.replace(predictions, classes=tuple(names))
        by = tuple(predictions.groups) if args.group else "predicted-class"
        reporter = ignore if args.json else display
        report = audit(predictions, by=by, resamples=args.resamples, seed=args.seed, reporter=reporter)
    numbers = report.numbers()
    failed = [condition for condition in conditions if condition.holds(numbers)]
    if args.html:
        report.to_html(args.html, source=", ".join(map(str, args.files)))
    if args.json:
        print(report.to_json())
    else:
        print(report)
    for condition in failed:
        print(f"calmix: {condition} holds: it is {condition.value(numbers):.4g}", file=sys.stderr)
    return 1 if failed else 0


def load_members(files: tuple[Path, ...], values: Literal["logits", "probs"] | None) -> Predictions:
    """One ensemble from its file, or from a file for each member."""
    if not files:
        raise InputError("give a file of predictions")
    parts = [load_predictions(path, values=values) for path in files]
    return join_members(parts, [str(path) for path in files]) if len(parts) > 1 else parts[0]


def read_names(path: Path | None) -> list[str] | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{path}: class names must be UTF-8 text, one on each line") from None
