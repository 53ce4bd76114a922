"""`calmix sweep`"""

import itertools
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from calmix import files
from calmix.cli.execution import Execution
from calmix.cli.train import parse
from calmix.errors import InputError, at_least
from calmix.progress import Display, Message
from calmix.runs.folder import Run
from calmix.runs.launch import Machine
from calmix.runs.recipe import Recipe
from calmix.study.results import Results, read_results
from calmix.study.sweep import larger_ensembles, run_sweep
from calmix.study.tasks import Context

# Flags whose commas are their own: they change where and how a run is computed, not what it is.
NOT_SWEPT = ("recipe", "member", "threads", "accelerator", "devices", "nodes", "save-seconds", "log", "seed")


@dataclass(frozen=True)
class Sweep:
    """Train a grid: every flag of `calmix train`, and a comma makes a list of values.

    Example: calmix sweep --dataset mnist --ensemble deep --augment mixup --alpha 0.2,0.5,1 --members 1,2,4,8
    --seeds 3 --jobs 2

    Every combination is a run of its own: the same command resumes, and returns at once when all are
    finished. Values that have commas or spaces themselves are separated with semicolons, or written as JSON:
    --decay-epochs "80 160;100 200" or "[[80, 160], [100, 200]]". Of deep ensembles that differ in --members
    alone the largest is trained: the others are its first members (not with --gap-of pool, where members
    depend on each other). The results are written to --render: a table, and a curve for each metric against
    each number that was swept.
    """

    seeds: int = 1
    """Runs of each combination, with seeds 0, 1, ...; --seed S starts at S."""
    execution: tyro.conf.OmitArgPrefixes[Execution] = field(default_factory=Execution)
    corruptions: bool = False
    """Evaluate under the benchmark's 15 types of corruption too."""
    corrupted: Path | None = None
    """Folder of official corrupted test sets (.npy); otherwise they are generated."""
    out: Path = Path("runs")
    """Folder that holds the runs' folders."""
    data_root: Path | None = None
    """Where data sets are; by default the environment's CALMIX_DATA, then the user's cache."""
    render: Path = Path("sweep")
    """Folder to write sweep.md, sweep.csv and figures to."""
    figures_format: Annotated[tuple[str, ...], tyro.conf.arg(name="figures-format")] = ("svg",)
    """Formats of figures: svg, pdf, png."""
    dry_run: bool = False
    """Only list the runs."""


def main(arguments: list[str]) -> int:
    args, words = _own_flags(arguments)
    at_least("seeds", args.seeds, 1)
    at_least("jobs", args.execution.jobs, 1)
    recipes, swept = expand(words, seeds=args.seeds)
    console = Console()
    answered = larger_ensembles(recipes)
    if args.dry_run:
        for recipe in recipes:
            note = f" (the first members of {answered[recipe].name})" if recipe in answered else ""
            console.print(f"{recipe.name}{note}", markup=False, highlight=False, soft_wrap=True)
        return 0
    from calmix.corruptions import CORRUPTIONS

    types = CORRUPTIONS if args.corruptions or args.corrupted else ()
    context = Context(args.out, args.data_root, args.corrupted, _machine(words))
    args.render.mkdir(parents=True, exist_ok=True)  # a folder that cannot be written shows before training
    with Display() as display:
        trained = len(recipes) - len(answered)
        display(Message(f"{len(recipes)} runs, of which {trained} are trained"))
        errors = run_sweep(
            recipes, types, context, lambda: args.execution.executor(context, display), display
        )
    results = read_results(Run(args.out / recipe.name, recipe) for recipe in recipes)
    evaluated = Results(result for result in results if result.summary)
    if evaluated:
        written = write_sweep(evaluated, swept, args, command=f"calmix sweep {shlex.join(arguments)}")
        console.print(f"written: {written[0]} and {len(written) - 1} files beside it", markup=False)
    for name, error in errors.items():
        console.print(f"failed: {name}: {error}", soft_wrap=True, markup=False)
    return 1 if errors else 0


def _machine(words: Sequence[str]) -> Machine:
    """The machine that the flags of `calmix train` describe: with the first value of each flag."""
    line = [word for flag, options in _flags(words) for word in (flag, *options[0])]
    return parse(line)[0].machine


def _own_flags(arguments: list[str]) -> tuple[Sweep, list[str]]:
    """The sweep's own options, and the words that `calmix train` parses."""
    args, words = tyro.cli(Sweep, args=arguments, prog="calmix sweep", return_unknown_args=True)
    return args, list(words)


def expand(words: Sequence[str], *, seeds: int) -> tuple[list[Recipe], list[str]]:
    """The recipes of every combination of values, and the fields that have several.

    >>> words = ["--augment", "mixup", "--alpha", "0.2,1", "--decay-epochs", "1 2;3"]
    >>> recipes, swept = expand(words, seeds=1)
    >>> swept, [(recipe.alpha, recipe.decay_epochs) for recipe in recipes]
    (['alpha', 'decay_epochs'], [(0.2, (1, 2)), (0.2, (3,)), (1.0, (1, 2)), (1.0, (3,))])
    """
    flags = _flags(words)
    swept = [flag for flag, options in flags if len(options) > 1]
    recipes: dict[Recipe, None] = {}
    for choice in itertools.product(*(options for _, options in flags)):
        line = [word for (flag, _), values in zip(flags, choice, strict=True) for word in (flag, *values)]
        _, recipe = parse([word for word in line if word])
        first = recipe.seed
        recipes |= dict.fromkeys(recipe.replace(seed=seed) for seed in range(first, first + seeds))
    return list(recipes), [flag.removeprefix("--").replace("-", "_") for flag in swept]


def _flags(words: Sequence[str]) -> list[tuple[str, list[list[str]]]]:
    """Each flag with its alternatives, each a list of words; words before any flag have none."""
    flags: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            flags.append((flag, [value] if equals else []))
        elif flags:
            flags[-1][1].append(word)
        else:
            raise InputError(f"{word!r} belongs to no flag; `calmix train --help` lists them")
    return [(flag, alternatives(flag, values)) for flag, values in flags]


def alternatives(flag: str, values: Sequence[str]) -> list[list[str]]:
    """The values between which a flag's words leave the choice, each as words for the command line.

    >>> alternatives("--members", ["1,2"]), alternatives("--decay-epochs", ["[[1, 2], [3]]"])
    ([['1'], ['2']], [['1', '2'], ['3']])
    """
    if len(values) != 1 or flag.removeprefix("--") in NOT_SWEPT:
        return [list(values)]
    (text,) = values
    if ";" in text:
        parts = [part.strip() for part in text.split(";")]
        return [[part] if part.startswith("{") else part.split() for part in parts if part]
    if text.startswith("[["):
        try:
            lists: Any = json.loads(text)
        except ValueError:
            raise InputError(
                f"{flag} {text} is not a JSON list of lists, such as [[80, 160], [100]]"
            ) from None
        return [[str(item) for item in each] for each in lists]
    if text.startswith(("{", "[")):
        return [[text]]
    return [[part] for part in text.split(",") if part]


def write_sweep(results: Results, swept: Sequence[str], args: Sweep, *, command: str) -> list[Path]:
    """Write sweep.md, sweep.csv and the figures; their paths."""
    from calmix.report.exports import csv_text
    from calmix.report.figures import CaptionedFigure
    from calmix.report.style import check_formats, save_figure
    from calmix.report.sweeps import sweep_figures, sweep_table
    from calmix.report.tables import print_table
    from calmix.study.collection import Runs

    formats = check_formats(args.figures_format)
    table = sweep_table(results)
    print_table(table, Console())
    folder, written = args.render, [args.render / "sweep.md", args.render / "sweep.csv"]
    lines = ["# Sweep", "", f"Made by `{command}`.", "", table.markdown(), ""]
    figure: CaptionedFigure
    for figure in sweep_figures(results, swept):
        (folder / "figures").mkdir(exist_ok=True)
        for ending in formats:
            written.append(folder / "figures" / f"{figure.name}.{ending}")
            save_figure(figure.figure, written[-1])
        shown = "svg" if "svg" in formats else formats[-1]
        lines += [f"![{figure.alt}](figures/{figure.name}.{shown})", "", f"*{figure.caption}.*", ""]
    for path, text in zip(written, ("\n".join(lines), csv_text(Runs(results).rows())), strict=False):
        with files.replacing(path) as file:
            file.write((text.rstrip("\n") + "\n").encode())
    return written
