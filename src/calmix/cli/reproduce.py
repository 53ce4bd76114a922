"""`calmix reproduce`"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from calmix.errors import InputError, above, at_least, at_most
from calmix.progress import Display, Message, Reporter
from calmix.runs.launch import Machine
from calmix.study.executors import Executor, ProcessExecutor, SerialExecutor
from calmix.study.plan import run_plan
from calmix.study.tasks import Context

if TYPE_CHECKING:
    from calmix.paper.reproduce import ItemPlan

CONSOLE_WIDTH = 160  # columns of the widest table, which a narrow terminal wraps rather than shortens


@dataclass(frozen=True)
class Reproduce:
    """Train what a table or figure of the paper needs and does not have yet, and show it with the paper's
    numbers beside the measured ones.

    Example: calmix reproduce pathology camixup --dataset digits --scale smoke

    Items: pathology, reliability, label-smoothing, mixup-counts, camixup, imagenet, corruption, augmix,
    deep-ensembles, other-metrics, temperature, toy, forgetting: together they are all. And beyond, which is
    not in the paper. Stop it at any time: the same command resumes.
    """

    items: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Tables and figures; all is every one of the paper's."""
    dataset: str | None = None
    """Data set of all items but toy and imagenet; by default mnist, at paper scale cifar10."""
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
    runs: tuple[Path, ...] = ()
    """Further folders of finished runs, or of evidence: what is finished there is not trained again."""
    keep: Path | None = None
    """Write the evidence of each run that finishes to this folder: a few tens of kilobytes in place of its
    weights and predictions, enough for tables, figures and claims."""
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
    from calmix.paper.items import select_items
    from calmix.paper.page import print_items, write_items
    from calmix.paper.reproduce import keep_finished, keep_result, plan_items, read_plan, render_plan

    args = tyro.cli(Reproduce, args=arguments, prog="calmix reproduce")
    at_least("jobs", args.jobs, 1)
    at_most("seeds", args.seeds, 10_000)
    plan = plan_items(
        select_items(args.items),
        dataset=args.dataset or ("cifar10" if args.scale == "paper" else "mnist"),
        scale=args.scale,
        seeds=args.seeds,
        changes={"shards": args.shards, "precision": args.precision},
        data_root=args.data_root,
        absent=args.dry_run,
    )
    console = Console()
    console.width = max(console.width, CONSOLE_WIDTH)
    if args.dry_run:
        _print_forecast(plan, args, console)
        return 0
    target = args.render or args.out
    target = target if target.suffix == ".md" else target / "results.md"
    if target.is_dir():
        raise InputError(f"--render {target}: there is a folder of that name; give a file, or another folder")
    target.parent.mkdir(parents=True, exist_ok=True)  # a folder that cannot be written shows before training
    with Display() as display:
        if args.scale != "smoke" and args.on == "here":
            display(Message(_cost(plan, args)))
        if args.keep:
            keep_finished(plan.runs, args.out, args.keep)
        errors = run_plan(
            plan.runs,
            args.out,
            _executor(args, display),
            display,
            elsewhere=args.runs,
            on_finished=lambda run: keep_result(run, args.keep) if args.keep else None,
        )
    results = read_plan(plan.runs, [args.out, *args.runs])
    rendered = render_plan(plan, results)
    print_items(plan, rendered, console)
    command = f"calmix reproduce {shlex.join(arguments)}"
    written = write_items(plan, results, rendered, target, command=command, errors=errors)
    console.print(f"written: {target} and {len(written) - 1} figures", soft_wrap=True, markup=False)
    for name, error in errors.items():
        console.print(f"failed: {name}: {error}", soft_wrap=True, markup=False)
    return 1 if errors else 0


def _print_forecast(plan: "ItemPlan", args: Reproduce, console: Console) -> None:
    from calmix.report.tables import Cell, Table
    from calmix.study.forecast import forecast

    if args.tflops is not None:
        above("tflops", args.tflops, 0)
    forecasts = forecast(plan.runs, [args.out, *args.runs], args.data_root, tflops=args.tflops)
    rows = [(Cell(r.name), Cell(f.state), Cell(_hours(f.hours))) for r, f in forecasts.items()]
    hours = {item.name: sum(forecasts[r].hours for r in plan.recipes(item)) for item in plan.items}
    hours["together, shared runs once"] = sum(f.hours for f in forecasts.values())
    where = f"{args.tflops:g} TFLOP/s, by counted operations" if args.tflops else "one thread of this machine"
    console.print(Table("Runs", ("run", "state", "left"), tuple(rows)).rich())
    lines = tuple((Cell(name), Cell(_hours(total))) for name, total in hours.items())
    console.print(Table(f"An estimate: what is left on {where}", ("item", "left"), lines).rich())


def _cost(plan: "ItemPlan", args: Reproduce) -> str:
    """What is left to do, before it starts."""
    from calmix.study.forecast import forecast

    forecasts = forecast(plan.runs, [args.out, *args.runs], args.data_root).values()
    left = [forecast for forecast in forecasts if forecast.state != "finished"]
    hours = sum(forecast.hours for forecast in left)
    return (
        f"{len(left)} of {len(forecasts)} runs are left: about {_hours(hours)} of one thread, "
        f"{_hours(hours / args.jobs)} in {args.jobs} processes, evaluation included"
        if left
        else f"all {len(forecasts)} runs are finished"
    )


def _hours(number: float) -> str:
    return f"{60 * number:.1f} min" if number < 1 else f"{number:,.1f} h"


def _executor(args: Reproduce, reporter: Reporter) -> Executor:
    context = Context(args.out, args.data_root, machine=Machine(accelerator=args.accelerator))
    if args.on == "ray":
        from calmix.study.ray import RayExecutor

        return RayExecutor(
            context, reporter, address=args.address, cpus=args.cpus, gpus=args.gpus, pull=args.pull
        )
    if args.jobs == 1:
        return SerialExecutor(context, reporter)
    return ProcessExecutor(context, reporter, jobs=args.jobs)
