"""`calmix train`"""

import argparse
import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from calmix import launch
from calmix.cli.evaluate import print_summary
from calmix.errors import InputError
from calmix.evaluate import evaluate
from calmix.launch import Machine
from calmix.presets import preset
from calmix.progress import Display
from calmix.recipe import Recipe
from calmix.run_folder import read_recipe


@dataclass(frozen=True)
class Train:
    """Train one run: the scale's preset for the data set, ensemble and augmentation, changed by what you say.

    Example: calmix train --dataset digits --ensemble deep --augment camixup --epochs 6 --seed 0 --out runs

    The defaults shown are those of the choices given with --help. The run's folder is named by its recipe:
    the same command again resumes an interrupted run and returns at once from a finished one.
    """

    augment: str = "none"
    """Parts joined with +: augmix; mixup, cutmix, regmixup, mixupmp, camixup, cutmix-camixup or forgetting;
    label-smoothing; or none. It fills in transform, mixing and smoothing."""
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
    machine: Annotated[Machine, tyro.conf.arg(name="")] = field(default_factory=Machine)
    recipe: Annotated[Recipe, tyro.conf.arg(name="")] = field(default_factory=Recipe)


def main(arguments: list[str]) -> None:
    chosen = parse(arguments)
    with Display() as display:
        run = launch.train(
            chosen.recipe,
            chosen.out,
            listener=display,
            root=chosen.data_root,
            machine=chosen.machine,
            member=chosen.member,
        )
        if not run.trained or not launch.leads():
            return
        summary = evaluate(run, root=chosen.data_root, listener=display)
    print_summary(run, summary)


def parse(arguments: list[str]) -> Train:
    """Two readings: the first finds which preset is meant, the second takes every option, the preset as
    default."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name, default in (
        ("dataset", "digits"),
        ("ensemble", "single"),
        ("augment", "none"),
        ("scale", "laptop"),
    ):
        first.add_argument(f"--{name}", default=default)
    first.add_argument("--paper-code", action="store_true")
    first.add_argument("--recipe", type=Path)
    said, _ = first.parse_known_args(arguments)
    if said.recipe:
        return _repeat(said.recipe, arguments)
    recipe = preset(said.dataset, said.ensemble, said.augment, scale=said.scale, paper_code=said.paper_code)
    start = Train(augment=said.augment, recipe=recipe)
    return _changed(start, arguments)


def _repeat(path: Path, arguments: list[str]) -> Train:
    """The recipe of a file takes the preset's place, so the words that choose a preset have none."""
    words = {argument.partition("=")[0] for argument in arguments}
    if chosen := sorted(words & {"--augment", "--scale", "--paper-code"}):
        raise InputError(
            f"{chosen[0]} chooses a preset, and --recipe takes its place; change single fields instead, "
            "such as --mixing, --epochs or --seed"
        )
    recipe = read_recipe(path)
    return _changed(Train(augment=recipe.augment, recipe=recipe), arguments)


def _changed(start: Train, arguments: list[str]) -> Train:
    chosen = tyro.cli(Train, args=arguments, default=start, prog="calmix train")
    return dataclasses.replace(chosen, recipe=dataclasses.replace(chosen.recipe))
