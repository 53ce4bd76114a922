"""`calmix compare`"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import tyro

from calmix import files
from calmix.auditing.compare import Comparison, compare
from calmix.auditing.matching import match_ids
from calmix.cli.reading import Reading, as_flags, check_fraction, check_output, check_resamples, digests, show
from calmix.errors import InputError
from calmix.predictions import Predictions


@dataclass(frozen=True)
class Compare:
    """Compare two models, or one model at two dates: the difference of every metric, with its interval.

    Example: calmix compare old.npz new.npz --by-id --html comparison.html

    Both files must hold the same examples, in the same order or with the same ids; --unpaired compares
    different ones.
    """

    a: Annotated[Path, tyro.conf.Positional]
    """Predictions of the first model."""
    b: Annotated[Path, tyro.conf.Positional]
    """Predictions of the second model; differences are b - a."""
    reading: tyro.conf.OmitArgPrefixes[Reading]
    by_id: bool = False
    """Match the examples by their ids."""
    unpaired: bool = False
    """The files hold different examples, such as those of two dates."""
    level: float = 0.95
    """Confidence level of the intervals."""
    resamples: int = 1000
    """Resamples behind each interval."""
    seed: int = 0
    """Seed of the resamples."""
    json: bool = False
    """Print JSON and nothing else."""
    html: Path | None = None
    """Write a page with both models side by side too."""


def main(arguments: list[str]) -> None:
    args = tyro.cli(Compare, args=arguments, prog="calmix compare")
    check_fraction("--level", args.level)
    check_resamples(args.resamples)
    if args.by_id and args.unpaired:
        raise InputError("give --by-id or --unpaired, not both")
    check_output(args.html, "--html", (args.a, args.b))
    args.reading.check([args.a, args.b])
    a, b = (args.reading.read(path) for path in (args.a, args.b))
    try:
        comparison = compare(
            a,
            b,
            paired=not args.unpaired,
            by_id=args.by_id,
            names=(str(args.a), str(args.b)),
            level=args.level,
            resamples=args.resamples,
            seed=args.seed,
        )
    except InputError as error:
        raise InputError(as_flags(str(error))) from None
    if args.html:
        write_page(comparison, a, b, args)
    show(comparison.to_json() if args.json else str(comparison))


def write_page(comparison: Comparison, a: Predictions, b: Predictions, args: Compare) -> None:
    """Write the page of a comparison; matched by id, of the examples that both have."""
    from calmix.report.comparison_page import (  # matplotlib, loaded when first used
        comparison_page,
        judge_side,
    )

    assert args.html is not None
    if args.by_id:
        a, b, _ = match_ids(a, b, comparison.names)
    sides = [
        judge_side(name, some, level=args.level, seed=args.seed)
        for name, some in zip(comparison.names, (a, b), strict=True)
    ]
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    page = comparison_page(comparison, sides, date=date, inputs=digests([args.a, args.b]))
    with files.replacing(args.html) as file:
        file.write(page.encode(errors="backslashreplace"))
