"""`calmix corrupt`"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from calmix import data
from calmix.corruptions import ALL_CORRUPTIONS, AUTHORS_CIFAR100, CORRUPTIONS, frost_source
from calmix.data.corrupted import write_corrupted
from calmix.errors import InputError, at_least, printable
from calmix.progress import Display, Message, Progress


@dataclass(frozen=True)
class Corrupt:
    """Write a test set under every corruption and severity, in the layout of CIFAR-10-C and CIFAR-100-C.

    Example: calmix corrupt --dataset cifar100 --out cifar-100-c --jobs 2

    A file appears when it is whole; the same command again makes what is missing.
    """

    dataset: str
    """Data set whose test images are corrupted: cifar10, cifar100, fashion-mnist, mnist, digits."""
    out: Path
    """Folder for `<name>.npy` (5 x N images) and `labels.npy`."""
    names: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Which corruptions; by default all 15 of the benchmark and the 4 extra ones."""
    benchmark_only: bool = False
    """Only the 15 types of the benchmark."""
    authors_list: bool = False
    """Only the 17 types of the authors' CIFAR-100-C."""
    seed: int = 0
    """Seed of the random draws."""
    jobs: int = 1
    """Processes that work side by side."""
    data_root: Path | None = None
    """Where data sets are; by default the environment's CALMIX_DATA, then the user's cache."""


def main(arguments: list[str]) -> None:
    args = tyro.cli(Corrupt, args=arguments, prog="calmix corrupt")
    at_least("jobs", args.jobs, 1)
    if sum((bool(args.names), args.benchmark_only, args.authors_list)) > 1:
        raise InputError("choose one of --names, --benchmark-only and --authors-list")
    test = data.load(args.dataset, args.data_root).test
    if not isinstance(test, data.Part) or test.inputs.ndim != 4:
        raise InputError(
            f"--dataset {args.dataset}: only sets of images in memory are written; "
            "`calmix evaluate --corruptions` corrupts an image folder on the fly"
        )
    names = args.names or ALL_CORRUPTIONS
    names = CORRUPTIONS if args.benchmark_only else AUTHORS_CIFAR100 if args.authors_list else names
    with Display() as display:
        if "frost" in names:
            display(Message(f"frost: {frost_source()}"))

        def report(name: str, done: int, total: int) -> None:
            display(Progress("corrupting", done, total, name))

        images, labels = test.inputs, test.labels
        write_corrupted(
            images, labels, args.out, names=names, seed=args.seed, jobs=args.jobs, progress=report
        )
    print(printable(args.out))
