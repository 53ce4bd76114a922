"""`calmix reproduce`"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from calmix.errors import InputError
from calmix.launch import Machine
from calmix.paper.forecast import forecast
from calmix.paper.items import chosen
from calmix.paper.reproduce import carry_out, make_plan
from calmix.paper.results import show, write
from calmix.paper.tasks import Hands, OneByOne, Place
from calmix.paper.workers import Workers
from calmix.progress import Display, Listener

WIDE = 160  # columns of the widest table, which a narrow terminal wraps rather than shortens


@dataclass(frozen=True)
class Reproduce:
    """Train what a table or figure of the paper needs and does not have yet, and show it with the paper's
    numbers beside the measured ones.

    Example: calmix reproduce pathology camixup --dataset digits --scale smoke

    Items: pathology, reliability, label-smoothing, mixup-counts, camixup, imagenet, corruption, augmix,
    deep-ensembles, other-metrics, temperature, toy, forgetting: together they are all. And beyond, which is
    not in the paper. Stop it at any time: the same command goes on from there.
    """

    items: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Tables and figures; all is every one of the paper's."""
    dataset: str = "cifar10"
    """Data set of all items but toy and imagenet."""
    scale: str = "laptop"
    """paper, laptop or smoke."""
    seeds: int = 1
    """Runs of each method, with seeds 0, 1, ..."""
    shards: int = 1
    """Pieces of a batch within which images are mixed: the number of devices that trained these runs with
    `calmix train --devices`."""
    jobs: int = 2
    """Processes of this machine that train at once, one thread each."""
    on: Literal["here", "ray"] = "here"
    """Where to train: on this machine, or on a Ray cluster."""
    address: str | None = None
    """Ray: the cluster's address; by default RAY_ADDRESS, and without it a cluster of this machine alone."""
    cpus: float = 1.0
    """Ray: CPUs for each task."""
    gpus: float = 0.0
    """Ray: GPUs for each task; a fraction shares one."""
    pull: bool = False
    """Ray: the workers do not share the folder of runs; send it to and fro."""
    out: Path = Path("runs")
    """Folder that holds the runs' folders."""
    data_root: Path | None = None
    """Where data sets are; by default the environment's CALMIX_DATA, then the user's cache."""
    accelerator: str = "auto"
    """cpu, cuda, mps or auto."""
    precision: str = "32-true"
    """Lightning Fabric's name of a precision: 32-true, bf16-mixed, ..."""
    render: Path | None = None
    """Folder or .md file to write the results to; by default OUT/results.md."""
    dry_run: bool = False
    """Only list the runs, what exists of them, and how long the rest would take, one after the other."""
    tflops: float | None = None
    """With --dry-run: estimate for a machine of so many sustained TFLOP/s instead of timing this one."""


def main(arguments: list[str]) -> int:
    wish = tyro.cli(Reproduce, args=arguments, prog="calmix reproduce")
    if wish.jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {wish.jobs}")
    plan = make_plan(
        chosen(wish.items),
        dataset=wish.dataset,
        scale=wish.scale,
        seeds=wish.seeds,
        shards=wish.shards,
        root=wish.data_root,
        absent=wish.dry_run,
    )
    console = Console()
    console.width = max(console.width, WIDE)
    if wish.dry_run:
        for table in forecast(plan, wish.out, wish.data_root, tflops=wish.tflops):
            console.print(table.rich())
        return 0
    target = wish.render or wish.out
    target = target if target.suffix == ".md" else target / "results.md"
    if target.is_dir():
        raise InputError(f"--render {target}: there is a folder of that name; give a file, or another folder")
    target.parent.mkdir(parents=True, exist_ok=True)  # what cannot be written shows before the training
    with Display() as display:
        failed = carry_out(plan, wish.out, hands(wish, display), display)
    show(plan, wish.out, console)
    written = write(
        plan, wish.out, target, command=f"calmix reproduce {shlex.join(arguments)}", failed=failed
    )
    console.print(f"written: {target} and {len(written) - 1} figures", soft_wrap=True)
    for name, why in failed.items():
        console.print(f"failed: {name}: {why}", soft_wrap=True, markup=False)
    return 1 if failed else 0


def hands(wish: Reproduce, listener: Listener) -> Hands:
    machine = Machine(accelerator=wish.accelerator, precision=wish.precision)
    place = Place(wish.out, wish.data_root, machine)
    if wish.on == "ray":
        from calmix.paper.cluster import Cluster

        return Cluster(place, listener, address=wish.address, cpus=wish.cpus, gpus=wish.gpus, pull=wish.pull)
    return Workers(place, listener, jobs=wish.jobs) if wish.jobs > 1 else OneByOne(place, listener)
