"""`calmix train`"""

import argparse
import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from calmix import data
from calmix.cli.evaluate import print_summary
from calmix.errors import InputError, at_least
from calmix.integrations.loggers import log_summary, open_log
from calmix.models import NETWORKS
from calmix.progress import Display, Message, Reporter
from calmix.runs.api import describe_own_data
from calmix.runs.augmentation import MIXINGS
from calmix.runs.code import is_code
from calmix.runs.evaluate import evaluate
from calmix.runs.folder import Run, read_recipe
from calmix.runs.launch import Machine, is_main_process, train
from calmix.runs.presets import preset
from calmix.runs.recipe import Recipe
from calmix.study.executors import ProcessExecutor
from calmix.study.plan import run_plan
from calmix.study.tasks import Context


def _listed(what: str, names: Iterable[str], own: str) -> Any:
    """The help of a field: the names that are built in, and how to name one's own."""
    return tyro.conf.arg(help=f"{what}: {', '.join(names)}; or {own}")


OWN_DATA = "one of your own: a .npz file, file.py:load, a folder of images."
OWN_NETWORK = (
    "one of your own: file.py:make or package.module:make, called with shape=, num_classes= and the "
    "network's options."
)
OWN_MIXING = "file.py:make of your own, called with num_classes= and members=."


@dataclass(frozen=True)
class RecipeFlags(Recipe):
    """A recipe whose network's options have flags of their own; checked when it becomes a recipe."""

    dataset: Annotated[str, _listed("Data set", data.NAMES, OWN_DATA)] = Recipe.dataset
    network: Annotated[str, _listed("Network", NETWORKS, OWN_NETWORK)] = Recipe.network
    mixing: Annotated[str, _listed("Mixing", MIXINGS, OWN_MIXING)] = Recipe.mixing
    network_options: tyro.conf.Suppress[dict[str, Any]] = field(default_factory=dict, hash=False)
    digests: tyro.conf.Suppress[dict[str, str]] = field(default_factory=dict, hash=False)
    paths: tyro.conf.Suppress[dict[str, str]] = field(default_factory=dict, compare=False)
    loader_digest: tyro.conf.Suppress[str] = field(default="", compare=False)

    def __post_init__(self) -> None:
        pass


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

    Your own: calmix train --network nets.py:make --network-options '{"depth": 3}' --dataset mine.npz

    The defaults shown are those of the choices given with --help. The run's folder is named by its recipe:
    the same command again resumes an interrupted run and returns at once from a finished one.
    """

    augment: str = "none"
    """Parts joined with +: augmix; a mixing (see --mixing), or camixup-by-pool; label-smoothing-0.1; or
    none. It fills in transform, mixing, gap-of and smoothing."""
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
    log: str | None = None
    """Log epochs and final numbers: tensorboard or mlflow; :FOLDER or :ADDRESS says where."""
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
    with Display() as display, open_log(args.log, display, prefix=recipe.name) as reporter:
        if text := describe_own_data(recipe):
            display(Message(text))
        run = _train(args, recipe, reporter)
        if not run.trained or not is_main_process():
            return
        # Members that are trained apart may end at once: one evaluates, the others wait for its numbers.
        apart = args.member is not None
        summary = evaluate(run, data_root=args.data_root, reporter=display, wait=apart)
        log_summary(reporter, run.folder.name, summary)
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
    for name in ("dataset", "ensemble", "augment", "scale", "network", "optimiser", "mixing"):
        first.add_argument(f"--{name}")
    first.add_argument("--paper-code", action="store_true")
    first.add_argument("--recipe", type=Path)
    choice, _ = first.parse_known_args(arguments)
    own_network = choice.network if choice.network and is_code(choice.network) else None
    own_mixing = choice.mixing if choice.mixing and is_code(choice.mixing) else None
    if choice.recipe:
        words = {argument.partition("=")[0] for argument in arguments}
        if chosen := sorted(words & {"--augment", "--scale", "--paper-code"}):
            raise InputError(
                f"{chosen[0]} chooses a preset, and --recipe takes its place; change single fields instead, "
                "such as --mixing, --epochs or --seed"
            )
        given = {"network": own_network, "dataset": choice.dataset}
        base = read_recipe(choice.recipe)
        base = base.with_own(**{name: value for name, value in given.items() if value is not None})
    else:
        base = preset(
            choice.dataset or "digits",
            choice.ensemble or "single",
            choice.augment or "none",
            scale=choice.scale or "laptop",
            paper_code=choice.paper_code,
            network=own_network,
            optimiser=choice.optimiser,
        )
    if own_mixing:
        base = base.with_own(mixing=own_mixing)
    network_flags = NetworkFlags(filterwise=bool(base.network_options.get("filterwise")))
    start = Train(augment=base.augment, network_flags=network_flags, recipe=RecipeFlags(**vars(base)))
    args = tyro.cli(Train, args=arguments, default=start, prog="calmix train")
    # What is the user's own has its place in the base already, under a shorter name than the one given.
    settled = {"network_options", "digests", "paths", "loader_digest", "dataset"}
    settled |= {"network"} if own_network else set()
    settled |= {"mixing"} if own_mixing else set()
    names = [f.name for f in dataclasses.fields(Recipe) if f.name not in settled]
    changed = {n: v for n in names if (v := getattr(args.recipe, n)) != getattr(base, n)}
    return args, base.replace(**changed, **args.network_flags.changes(network_flags))
