"""`calmix audit`"""

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from calmix.auditing import AuditReport, Condition, audit, parse_condition
from calmix.cli.reading import (
    Reading,
    as_flags,
    check_fraction,
    check_output,
    check_resamples,
    digests,
    read_one,
    show,
)
from calmix.errors import InputError, one_of
from calmix.predictions import Predictions
from calmix.progress import Display, ignore
from calmix.records import to_json

BY = ("predicted-class", "true-class")
PROBE = 64  # examples whose audit tells which names there are


@dataclass(frozen=True)
class Audit:
    """Judge the calibration of predictions from any framework: of the pool, its members, classes and groups.

    Example: calmix audit test.npz --html audit.html --fail-if "verdict != calibrated"

    Exit code 0 whatever the verdict, 1 where a --fail-if holds, 2 for input that cannot be used.
    """

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Predictions (.npz .npy .csv .tsv .parquet .jsonl, .gz of the text ones), or - for standard input."""
    reading: tyro.conf.OmitArgPrefixes[Reading]
    members: bool = False
    """Several files are the members of one ensemble."""
    tolerance: float = 0.02
    """Largest gap between accuracy and confidence that counts as calibrated; 0.02 is 2 points."""
    by: str | None = None
    """Judge by predicted-class (the default), true-class (CAMixup's rule), or a group."""
    level: float = 0.95
    """Confidence level of the intervals."""
    resamples: int = 1000
    """Resamples behind each interval and test."""
    seed: int = 0
    """Seed of the resamples and of the cross-validation folds."""
    json: bool = False
    """Print JSON and nothing else."""
    html: Path | None = None
    """Write a page with the diagrams too."""
    fail_if: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Exit with 1 where this holds: "abs(gap) > 0.02", "classes[cat].gap < -0.05". Repeatable."""


def main(arguments: list[str]) -> int:
    args = tyro.cli(Audit, args=arguments, prog="calmix audit")
    conditions = [parse_condition(text) for text in args.fail_if]
    check_fraction("--tolerance", args.tolerance)
    check_fraction("--level", args.level)
    check_resamples(args.resamples)
    check_output(args.html, "--html", args.files)
    predictions = read_one(args.files, args.reading, members=args.members)
    options: dict[str, Any] = {"by": choose_by(args, predictions), "level": args.level, "seed": args.seed}
    options["tolerance"] = args.tolerance
    check_names(conditions, predictions, options)
    with Display() as display, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = judge(
            predictions,
            **options,
            resamples=args.resamples,
            inputs=digests(args.files),
            reporter=ignore if args.json else display,
        )
        if args.html:
            report.to_html(args.html)
    numbers = report.numbers()
    failed = [condition for condition in conditions if condition.holds(numbers)]
    if args.json:
        extra = {"failed_conditions": [str(condition) for condition in failed]} if conditions else {}
        show(to_json(numbers | extra) if extra else report.to_json())
        return 1 if failed else 0
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        print(f"calmix: {text}", file=sys.stderr)
    show(str(report))
    for condition in failed:
        print(f"calmix: {condition} holds: it is {_text(condition.value(numbers))}", file=sys.stderr)
    return 1 if failed else 0


def judge(predictions: Predictions, **options: Any) -> AuditReport:
    """The audit, whose messages name options of this command."""
    try:
        return audit(predictions, **options)
    except InputError as error:
        raise InputError(as_flags(str(error))) from None


def choose_by(args: Audit, predictions: Predictions) -> str | tuple[str, ...]:
    """What the table of the audit goes by."""
    if predictions.labels is None:
        raise InputError("the predictions have no labels: without them there is nothing to judge (--label)")
    groups = args.reading.groups
    if args.by is None:
        return groups[0] if len(groups) == 1 else groups or BY[0]
    if groups:
        raise InputError("give --by or --group, not both")
    one_of("--by", args.by, [*BY, *predictions.groups])
    return args.by


def check_names(conditions: list[Condition], predictions: Predictions, options: dict[str, Any]) -> None:
    """Refuse conditions on names that the audit will not have: an audit of a few examples has the same."""
    if not conditions:
        return
    few = predictions.take(slice(0, PROBE))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            numbers = judge(few, **options, resamples=20).numbers()
    except InputError:  # too few examples; the names are checked by the audit itself
        return
    for condition in conditions:
        condition.check(numbers, predictions.class_names)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
