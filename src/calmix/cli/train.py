"""`calmix train`"""

import argparse
import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from calmix.cli.evaluate import print_summary
from calmix.errors import InputError, at_least
from calmix.progress import Display, Message, Reporter
from calmix.runs.evaluate import evaluate
from calmix.runs.folder import Run, read_recipe
from calmix.runs.launch import Machine, is_main_process, train
from calmix.runs.presets import preset
from calmix.runs.recipe import Recipe
from calmix.study.executors import ProcessExecutor
from calmix.study.plan import run_plan
from calmix.study.tasks import Context


@dataclass(frozen=True)
class RecipeFlags(Recipe):
    """A recipe whose network's options have flags of their own."""

    network_options: tyro.conf.Suppress[dict[str, Any]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class NetworkFlags:
    """Options of the network, where they differ from the preset's."""

    width: int | None = None
    """Channels of small_resnet's first stage, or widening factor of wide_resnet."""
    depth: int | None = None
    """Layers of wide_resnet."""
    hidden: int | None = None
    """Hidden units of mlp."""
    dropout: float | None = None
    """Probability of dropping an activation, in every residual block or hidden layer."""
    filterwise: bool = False
    """Drop whole filters before every convolution of wide_resnet instead of single activations."""
    network_options: str | None = None
    """Options as JSON: '{"width": 8, "mean": [0.5], "std": [0.25]}'."""

    def changes(self, start: "NetworkFlags") -> dict[str, Any]:
        """The options in which these flags differ from those before parsing."""
        named = {name: value for name, value in vars(self).items() if value != getattr(start, name)}
        text = named.pop("network_options", "{}")
        try:
            options = json.loads(text)
        except (ValueError, RecursionError):
            options = None
        if not isinstance(options, dict):
            raise InputError(f"--network-options must be a JSON object, got {text}")
        return options | named


@dataclass(frozen=True)
class Train:
    """Train one run: the scale's preset for the data set, ensemble and augmentation, changed by what you say.

    Example: calmix train --dataset digits --ensemble deep --augment camixup --epochs 6 --seed 0 --out runs

    The defaults shown are those of the choices given with --help. The run's folder is named by its recipe:
    the same command again resumes an interrupted run and returns at once from a finished one.
    """

    augment: str = "none"
    """Parts joined with +: augmix; mixup, cutmix, regmixup, mixupmp, camixup, camixup-by-pool,
    cutmix-camixup or forgetting; label-smoothing-0.1; or none. It fills in transform, mixing, gap-of and
    smoothing."""
    recipe_file: Annotated[Path | None, tyro.conf.arg(name="recipe")] = None
    """A run's recipe.json: repeat that run, or start from it instead of from a preset."""
    paper_code: bool = False
    """What the authors' scripts did where the paper says otherwise."""
    out: Path = Path("runs")
    """Folder that holds the run's folder."""
    data_root: Path | None = None
    """Where data sets are; by default the environment's CALMIX_DATA, then the user's cache."""
    member: int | None = None
    """Train only this member of a deep ensemble."""
    jobs: int = 1
    """Processes that train a deep ensemble's members side by side."""
    machine: Annotated[Machine, tyro.conf.arg(name="")] = field(default_factory=Machine)
    network_flags: Annotated[NetworkFlags, tyro.conf.arg(name="")] = field(default_factory=NetworkFlags)
    recipe: Annotated[RecipeFlags, tyro.conf.arg(name="")] = field(default_factory=RecipeFlags)


def main(arguments: list[str]) -> None:
    args, recipe = parse(arguments)
    at_least("jobs", args.jobs, 1)
    if args.jobs > 1 and args.machine.world_size > 1:
        raise InputError(
            "--jobs trains members side by side on one device: choose it or --devices and --nodes"
        )
    if args.member is not None and recipe.couples_members:
        raise InputError(
            "--member cannot train a member apart from the others with --gap-of pool, which needs them all"
        )
    with Display() as display:
        run = _train(args, recipe, display)
        if not run.trained or not is_main_process():
            return
        # Members that are trained apart may end at once: one evaluates, the others wait for its numbers.
        apart = args.member is not None
        summary = evaluate(run, data_root=args.data_root, reporter=display, wait=apart)
    print_summary(run, summary)


def _train(args: Train, recipe: Recipe, reporter: Reporter) -> Run:
    run = Run(args.out / recipe.name, recipe)
    if run.trained:
        reporter(Message("trained already", run.folder.name))
        return run
    if args.jobs > 1 and recipe.streams > 1 and args.member is None:
        context = Context(args.out, args.data_root, machine=args.machine)
        executor = ProcessExecutor(context, reporter, jobs=min(args.jobs, recipe.members))
        if errors := run_plan({recipe: ()}, args.out, executor, reporter, jobs=args.jobs):
            raise InputError("; ".join(errors.values()))
        return run
    members, root = None if args.member is None else [args.member], args.data_root
    return train(recipe, args.out, reporter=reporter, data_root=root, machine=args.machine, members=members)


def parse(arguments: list[str]) -> tuple[Train, Recipe]:
    """Two passes: the first finds the preset, the second takes every option with the preset as default."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    defaults = {"dataset": "digits", "ensemble": "single", "augment": "none", "scale": "laptop"}
    for name, default in defaults.items():
        first.add_argument(f"--{name}", default=default)
    first.add_argument("--paper-code", action="store_true")
    first.add_argument("--recipe", type=Path)
    choice, _ = first.parse_known_args(arguments)
    if choice.recipe:
        words = {argument.partition("=")[0] for argument in arguments}
        if chosen := sorted(words & {"--augment", "--scale", "--paper-code"}):
            raise InputError(
                f"{chosen[0]} chooses a preset, and --recipe takes its place; change single fields instead, "
                "such as --mixing, --epochs or --seed"
            )
        base = read_recipe(choice.recipe)
    else:
        base = preset(
            choice.dataset, choice.ensemble, choice.augment, scale=choice.scale, paper_code=choice.paper_code
        )
    network_flags = NetworkFlags(filterwise=bool(base.network_options.get("filterwise")))
    start = Train(augment=base.augment, network_flags=network_flags, recipe=RecipeFlags(**vars(base)))
    args = tyro.cli(Train, args=arguments, default=start, prog="calmix train")
    names = [f.name for f in dataclasses.fields(Recipe) if f.name != "network_options"]
    changed = {n: v for n in names if (v := getattr(args.recipe, n)) != getattr(base, n)}
    return args, base.replace(**changed, **args.network_flags.changes(network_flags))
