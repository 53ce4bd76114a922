"""`calmix compare`"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from calmix.auditing.compare import compare
from calmix.cli.reading import Reading, as_flags, check_fraction, check_resamples, show
from calmix.errors import InputError


@dataclass(frozen=True)
class Compare:
    """Compare two models, or one model at two dates: the difference of every metric, with its interval.

    Example: calmix compare old.npz new.npz --by-id

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
    """Of the intervals."""
    resamples: int = 1000
    """Resamples behind each interval."""
    seed: int = 0
    """Of the resamples."""
    json: bool = False
    """Print JSON and nothing else."""


def main(arguments: list[str]) -> None:
    args = tyro.cli(Compare, args=arguments, prog="calmix compare")
    check_fraction("--level", args.level)
    check_resamples(args.resamples)
    if args.by_id and args.unpaired:
        raise InputError("give --by-id or --unpaired, not both")
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
    show(comparison.to_json() if args.json else str(comparison))
