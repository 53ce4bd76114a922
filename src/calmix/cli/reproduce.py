"""`calmix reproduce`"""

import contextlib
import dataclasses
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from calmix.cli.execution import Execution
from calmix.errors import InputError, above, at_least, at_most, one_of
from calmix.integrations.loggers import log_results, open_log
from calmix.progress import Display, Message
from calmix.runs.launch import Machine
from calmix.runs.recipe import NETWORK_OPTIONS, Recipe
from calmix.study.plan import Plan, run_plan
from calmix.study.tasks import Context

if TYPE_CHECKING:
    from calmix.paper.reproduce import ItemPlan

_ITEM = "the items choose it"
CHOSEN = {
    **{"dataset": "choose it with --dataset", "scale": "choose it with --scale", "seed": "--seeds 3 repeats"},
    **dict.fromkeys(("ensemble", "transform", "mixing", "gap_of", "smoothing"), _ITEM),
    **{"shards": "choose them with --shards", "precision": "choose it with --precision"},
    "network": "choose it with --network",
    "train_on_validation": "give --train-on-validation",
}
CONSOLE_WIDTH = 160  # columns of the widest table, which a narrow terminal wraps rather than shortens


@dataclass(frozen=True)
class Reproduce:
    """Train what a table or figure of the paper needs and does not have yet, and show it, with the paper's
    numbers beside those of its own data sets and scale.

    Example: calmix reproduce pathology camixup --dataset digits --scale smoke

    Items: pathology, reliability, label-smoothing, mixup-counts, camixup, imagenet, corruption, augmix,
    deep-ensembles, other-metrics, temperature, toy, forgetting; `all` selects these. Not in the paper:
    beyond, crossing, compounding, cure, validation-size, noise; `everything` selects both. Stop it at
    any time: the same command resumes.
    """

    items: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Tables and figures; all is every one of the paper's, everything those beyond it too."""
    dataset: str | None = None
    """Data set of all items but toy and imagenet; by default mnist, at paper scale cifar10. Several, joined
    with commas, stand side by side."""
    scale: str = "laptop"
    """paper, laptop or smoke."""
    seeds: int = 1
    """Runs of each method, with seeds 0, 1, ..."""
    network: str | None = None
    """Another network for all runs."""
    changes: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="set", metavar="FIELD=VALUE")
    ] = ()
    """Change a recipe field of all runs: --set epochs=40 --set alpha=0.5; a field that an item varies itself
    stays the item's."""
    paper_code: bool = False
    """What the authors' scripts did where the paper says otherwise: partners from the reversed batch, lam
    folded, counts of pairs for forgetting, AugMix with a = 0.5 and a clean first member; on CIFAR their
    padding, normalisation, schedule and batch. It leaves out the value of alpha with which CAMixup was run:
    in the scripts 1 meant off, and what they used instead is not recorded. Give one below 1 with --set
    alpha=..., or CAMixup mixes with alpha = 1. It leaves out, too, that the scripts dropped the last partial
    batch of the test set, and their AugMix operations, ten of one fixed strength: those of the paper stay."""
    train_on_validation: bool = False
    """The paper's reading of the validation images: methods that need none (none, Mixup, AugMix) train on
    them too; CAMixup, and whatever a temperature is fitted for, does not."""
    shards: int = 1
    """Pieces of a batch within which images are mixed: the number of devices that trained these runs with
    `calmix train --devices`."""
    execution: tyro.conf.OmitArgPrefixes[Execution] = field(default_factory=Execution)
    out: Path = Path("runs")
    """Folder that holds the runs' folders."""
    runs: tuple[Path, ...] = ()
    """Further folders of finished runs, or of evidence: what is finished there is not trained again."""
    keep: Path | None = None
    """Write the evidence of each run that finishes to this folder: a few tens of kilobytes in place of its
    weights and predictions, enough for tables, figures and claims."""
    data_root: Path | None = None
    """Where data sets are; by default the environment's CALMIX_DATA, then the user's cache."""
    corrupted: Path | None = None
    """Folder of official corrupted test sets, one .npy file for each type; with several data sets a
    folder for each, by its name, in it. Otherwise they are generated."""
    accelerator: str = "auto"
    """cpu, cuda, mps or auto."""
    precision: str = "32-true"
    """Lightning Fabric's name of a precision: 32-true, bf16-mixed, ..."""
    render: Path | None = None
    """Folder or .md file to write the results to; by default OUT/results.md."""
    figures_format: tuple[str, ...] = ("svg",)
    """Formats of figures: svg, pdf, png; the page shows svg where it is one of them."""
    log: str | None = None
    """Log epochs, final numbers and figures: tensorboard or mlflow; :FOLDER or :ADDRESS says where."""
    dry_run: bool = False
    """Only list the runs, what exists of them, and how long the rest would take, one after the other."""
    train: bool = True
    """--no-train shows what is finished and trains nothing."""
    tflops: float | None = None
    """With --dry-run: estimate for a machine of so many sustained TFLOP/s instead of timing this one."""


def main(arguments: list[str]) -> int:
    from calmix.paper.items import select_items
    from calmix.paper.page import print_items, write_items
    from calmix.paper.reproduce import keep_finished, keep_result, plan_items, read_plan, render_plan
    from calmix.report.style import check_formats

    args = tyro.cli(Reproduce, args=arguments, prog="calmix reproduce")
    at_least("jobs", args.execution.jobs, 1)
    at_most("seeds", args.seeds, 10_000)
    formats = check_formats(args.figures_format)
    datasets = (args.dataset or ("cifar10" if args.scale == "paper" else "mnist")).split(",")
    changes = parse_changes(args.changes)
    folders = [args.out, *args.runs]
    plan = plan_items(
        select_items(args.items),
        dataset=datasets,
        scale=args.scale,
        seeds=args.seeds,
        changes={"shards": args.shards, "precision": args.precision, **_network(args), **changes},
        paper_code=args.paper_code,
        train_on_validation=args.train_on_validation,
        data_root=args.data_root,
        absent=args.dry_run or not args.train,
        train=args.train,
        runs=folders,
    )
    if args.corrupted is not None:
        _check_corrupted(plan, args.corrupted)
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
    with Display() as display, open_log(args.log, display) as reporter:
        for text in _notes(plan):
            display(Message(text))
        hours = None
        if args.train and args.scale != "smoke" and args.execution.on == "here":
            hours = _hours_left(plan, args)
            display(Message(_cost(hours, plan, args)))
        if args.keep:
            keep_finished(plan.runs, args.out, args.keep)
        errors: dict[str, str] = {}
        machine = Machine(accelerator=args.accelerator)
        for folder, part in _by_corrupted_folder(plan, args.corrupted) if args.train else ():
            context = Context(args.out, args.data_root, folder, machine=machine)
            errors |= run_plan(
                part,
                args.out,
                args.execution.executor(context, reporter),
                reporter,
                elsewhere=args.runs,
                on_finished=lambda run: keep_result(run, args.keep) if args.keep else None,
                hours=hours,
                workers=args.execution.jobs,
            )
        results = read_plan(plan.runs, folders)
        rendered = render_plan(plan, results, reporter=display)
        log_results(reporter, results, rendered)
        command = f"calmix reproduce {shlex.join(arguments)}"
        options: Any = {"command": command, "errors": errors, "formats": formats, "reporter": display}
        written = write_items(plan, results, rendered, target, **options)
    print_items(plan, rendered, console)
    console.print(f"written: {target} and {len(written) - 1} figures", soft_wrap=True, markup=False)
    for name, error in errors.items():
        console.print(f"failed: {name}: {error}", soft_wrap=True, markup=False)
    return 1 if errors else 0


def parse_changes(words: Sequence[str]) -> dict[str, Any]:
    """Recipe fields as FIELD=VALUE; a value is JSON, or a string as it stands.

    >>> parse_changes(["epochs=3", "schedule=steps", "decay-epochs=[1, 2]"])
    {'epochs': 3, 'schedule': 'steps', 'decay_epochs': [1, 2]}
    """
    kinds = {field.name: field.type for field in dataclasses.fields(Recipe)}
    changes: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise InputError(f"--set {word}: write FIELD=VALUE, such as --set epochs=40")
        one_of("field of --set", name, (*kinds, *NETWORK_OPTIONS))
        if name in CHOSEN:
            raise InputError(f"--set {name}: {CHOSEN[name]}")
        changes[name] = text
        if kinds.get(name) is not str:
            with contextlib.suppress(ValueError):
                changes[name] = json.loads(text)
    return changes


def _network(args: Reproduce) -> dict[str, Any]:
    return {} if args.network is None else {"network": args.network}


def _notes(plan: "ItemPlan") -> Iterator[str]:
    """What a reader of the results should know before they are made."""
    adaptive = [recipe for recipe in plan.runs if recipe.adaptive]
    if plan.paper_code and any(recipe.alpha == 1 for recipe in adaptive):
        yield (
            "--paper-code: CAMixup mixes with alpha = 1 here; the authors' scripts would have mixed nothing "
            "with it, because 1 meant off. Choose another with --set alpha=0.5"
        )
    if plan.left_out:
        yield f"not on this machine and left out: {', '.join(sorted(plan.left_out))}"


def _check_corrupted(plan: "ItemPlan", folder: Path) -> None:
    if not folder.is_dir():
        raise InputError(f"--corrupted {folder}: no such folder")
    for path, part in _by_corrupted_folder(plan, folder):
        for name in sorted({name for types in part.values() for name in types}):
            if path is not None and not (path / f"{name}.npy").is_file():
                raise InputError(f"--corrupted {path}: {name}.npy is missing")


def _by_corrupted_folder(plan: "ItemPlan", folder: Path | None) -> list[tuple[Path | None, Plan]]:
    """The runs of a plan by the folder of their corrupted images: one, or one for each data set in it."""
    if folder is None:
        return [(None, plan.runs)]
    parts: dict[Path, dict[Recipe, tuple[str, ...]]] = {}
    for recipe, types in plan.runs.items():
        own = folder / recipe.dataset
        parts.setdefault(own if own.is_dir() else folder, {})[recipe] = types
    return list(parts.items())


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


def _hours_left(plan: "ItemPlan", args: Reproduce) -> dict[Recipe, float]:
    """Of each run that is not finished, on one thread of this machine."""
    from calmix.study.forecast import forecast

    forecasts = forecast(plan.runs, [args.out, *args.runs], args.data_root)
    return {recipe: each.hours for recipe, each in forecasts.items() if each.state != "finished"}


def _cost(left: Mapping[Recipe, float], plan: "ItemPlan", args: Reproduce) -> str:
    """What is left to do, before it starts."""
    hours, count, jobs = sum(left.values()), len(plan.runs), args.execution.jobs
    return (
        f"{len(left)} of {count} runs are left: about {_hours(hours)} of one thread, "
        f"{_hours(hours / jobs)} in {jobs} processes, evaluation included"
        if left
        else f"all {count} runs are finished"
    )


def _hours(number: float) -> str:
    return f"{60 * number:.1f} min" if number < 1 else f"{number:,.1f} h"
