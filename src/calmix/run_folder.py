"""A run's folder: where its files are, and who may write them.

`recipe.json`, `metrics.jsonl`, `checkpoint.pt`, `model.safetensors`, `predictions/*.npz`, `summary.json`. The
independent members of a deep ensemble have a folder of their own below `members/` while they train.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calmix import files
from calmix.errors import InputError
from calmix.recipe import Recipe
from calmix.version import __version__


@dataclass(frozen=True)
class Run:
    """A folder that holds `recipe`."""

    folder: Path
    recipe: Recipe

    @property
    def model(self) -> Path:
        return self.folder / "model.safetensors"

    @property
    def summary(self) -> Path:
        return self.folder / "summary.json"

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    @property
    def mixed(self) -> Path:
        """Who is to be mixed from each epoch on, where CAMixup decided; `read_mixed` says who was."""
        return self.folder / "mixed.json"

    def predictions(self, what: str) -> Path:
        return self.folder / "predictions" / f"{what}.npz"

    def stream(self, member: int) -> Path:
        """Where a stream of training keeps its state: a deep ensemble has one for each member."""
        return self.folder / "members" / str(member) if self.recipe.ensemble == "deep" else self.folder

    @property
    def streams(self) -> int:
        """How many independent trainings the run consists of."""
        return self.recipe.members if self.recipe.ensemble == "deep" else 1

    @property
    def trained(self) -> bool:
        return self.model.exists()


def create(recipe: Recipe, out: Path) -> Run:
    """The folder of `recipe` below `out`, made if need be; fails at once where nothing can be written."""
    run = Run(out / recipe.name, recipe)
    try:
        for member in range(run.streams):
            run.stream(member).mkdir(parents=True, exist_ok=True)
        path = run.folder / "recipe.json"
        if not path.exists():
            write_json(path, {"version": __version__} | json.loads(recipe.to_json()))
    except OSError as error:
        raise InputError(f"cannot write to {run.folder}: {error.strerror}; choose another --out") from None
    return run


def open_run(folder: Path) -> Run:
    """The run of a folder that has a `recipe.json`."""
    path = folder / "recipe.json"
    if not path.is_file():
        raise InputError(f"{folder} is no run: it has no recipe.json")
    return Run(folder, read_recipe(path))


def read_recipe(path: Path) -> Recipe:
    """What a `recipe.json` asks for. Which calmix wrote it is for people to know: it changes nothing."""
    fields = read_json(path)
    if not isinstance(fields, dict):
        raise InputError(f"{path} must hold an object of recipe fields")
    return Recipe.from_json({name: value for name, value in fields.items() if name != "version"})


def find_runs(folders: list[Path]) -> list[Run]:
    """The runs named by folders: each a run itself, or a folder with runs in it."""
    if not folders:
        raise InputError("name at least one run folder, or a folder of runs")
    found: dict[Path, Run] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
        inside = (
            [folder]
            if (folder / "recipe.json").is_file()
            else sorted(p.parent for p in folder.glob("*/recipe.json"))
        )
        if not inside:
            raise InputError(f"{folder} holds no run (no recipe.json in it or one level below)")
        found |= {path.resolve(): open_run(path) for path in inside}
    return list(found.values())


@contextlib.contextmanager
def lock(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold `folder` while the block runs, or say at once that another process does. A dead holder holds
    nothing."""
    with open(folder / ".lock", "a") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another process is at work on {folder}; wait for it or stop it first"
            ) from None
        yield


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON: {error}") from None


def read_mixed(run: Run) -> npt.NDArray[np.int64]:
    """Who was mixed in each epoch, (epochs, members, groups) of 0 and 1.

    The record holds what was decided after each epoch. It acts in the next: nobody is mixed in the first, and
    the last decision never acts.
    """
    try:
        decided = np.asarray(read_json(run.mixed), dtype=np.int64)
    except (TypeError, ValueError):
        decided = np.zeros(0, dtype=np.int64)
    if decided.ndim != 3 or 0 in decided.shape:
        raise InputError(
            f"{run.mixed} does not say who was mixed: it must be a list (epochs, members, groups)"
        )
    return np.concatenate([np.zeros_like(decided[:1]), decided[:-1]])


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    with files.replacing(path) as file:
        file.write((json.dumps(value, indent=2) + "\n").encode())
