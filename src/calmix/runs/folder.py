"""Run folder: its files, who may write them, and the one reader of each.

`recipe.json`, `metrics.jsonl`, `checkpoint.pt`, `model.safetensors`, `predictions/*.npz`, `summary.json`, and
`influences.npz` where all corruptions of the benchmark are evaluated. The independent members of a deep
ensemble have a folder of their own below `members/` while they train.
"""

import contextlib
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from calmix import files
from calmix.errors import InputError
from calmix.locks import lock as lock
from calmix.predictions import Predictions, load_predictions
from calmix.progress import Message, Reporter, ignore
from calmix.records import from_plain, read_json, to_json, write_json
from calmix.runs import checkpoint, code, own
from calmix.runs.build import build_ensemble, check_size
from calmix.runs.recipe import Recipe
from calmix.runs.summary import Summary
from calmix.version import __version__


@dataclass(frozen=True)
class Epoch:
    """One epoch of a stream of training; validation numbers, of epochs that were validated, are those after
    it.

    `mixed_classes` (members, groups) holds 1 where a class was mixed in this epoch, for adaptive mixing by
    class or group; `mixed` is the mixed share of what an adaptive mixer decides on.
    """

    member: int
    epoch: int
    loss: float
    seconds: float
    accuracy: float | None = None
    ece: float | None = None
    gap_pool: float | None = None
    gap_members: tuple[float, ...] | None = None
    mixed: float | None = None
    mixed_classes: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True)
class Run:
    """A folder that holds the run of `recipe`."""

    folder: Path
    recipe: Recipe

    @property
    def model_path(self) -> Path:
        return self.folder / "model.safetensors"

    @property
    def summary_path(self) -> Path:
        return self.folder / "summary.json"

    @property
    def influences_path(self) -> Path:
        """Influence of each image on cA and cECE (`runs.influence`), so that not all corrupted test sets have
        to be read to compare runs."""
        return self.folder / "influences.npz"

    def predictions_path(self, what: str) -> Path:
        """`what` is validation, test, or <corruption>-<severity>."""
        return self.folder / "predictions" / f"{what}.npz"

    def stream_folder(self, member: int) -> Path:
        """Where a stream of training keeps its state."""
        return self.folder / "members" / str(member) if self.recipe.ensemble == "deep" else self.folder

    @property
    def trained(self) -> bool:
        return self.model_path.exists()

    def model(self, network: str | Callable[..., nn.Module] | None = None) -> nn.Module:
        """The trained ensemble, in evaluation mode.

        A network of the user's own is loaded from its file if that is unchanged; `network`, a function or
        `"file.py:make"`, stands for it where it was given from Python or its file is elsewhere.
        """
        if not self.trained:
            raise InputError(f"{self.folder} is not trained yet: run `calmix train` with its recipe first")
        if network is not None and (warning := own.use_code(self.recipe, "network", network)):
            warnings.warn(f"{self.folder.name}: {warning}", stacklevel=2)
        try:
            with safe_open(self.model_path, framework="pt") as file:
                metadata = file.metadata() or {}
            task = json.loads(metadata["task"])
            weights = load_file(self.model_path)
            checkpoint.check_digest(weights, task.get("digest"))  # none in files of earlier versions
            if not code.is_code(self.recipe.network):
                check_size(self.recipe, task["shape"], task["num_classes"], weights)
            model = build_ensemble(self.recipe, task["shape"], task["num_classes"])
            model.load_state_dict(weights)
        except (SafetensorError, *files.READ_ERRORS, AttributeError) as error:
            if isinstance(error, InputError) and code.is_code(self.recipe.network):
                raise
            text = (str(error) or type(error).__name__).splitlines()[0]
            reason = text if not isinstance(error, KeyError) else f"it lacks {error}"
            path = self.model_path
            raise InputError(
                f"{path} does not hold the weights of its recipe.json: {reason}; remove it, and `calmix "
                "train` makes it again, from its checkpoint where that is there"
            ) from None
        return model.eval()

    def write_model(self, model: nn.Module, shape: Sequence[int], num_classes: int) -> None:
        weights: dict[str, Tensor] = {}
        written: set[int] = set()
        for name, value in model.state_dict().items():
            tied = value.untyped_storage().data_ptr() in written  # which safetensors would refuse
            written.add(value.untyped_storage().data_ptr())
            weights[name] = value.contiguous().clone() if tied else value.contiguous()
        # One key: safetensors writes several in any order, and equal weights are equal files.
        task = {"shape": list(shape), "num_classes": num_classes, "digest": checkpoint.digest(weights)}
        metadata = {"task": json.dumps(task)}
        with files.replacing(self.model_path) as file:
            file.write(save(weights, metadata))

    def predictions(self, what: str = "test") -> Predictions:
        """Predictions that an evaluation kept: validation, test, or <corruption>-<severity>."""
        return load_predictions(self.predictions_path(what))

    @property
    def summary(self) -> Summary:
        """The numbers of an evaluated run."""
        if not self.summary_path.exists():
            raise InputError(f"{self.folder} is not evaluated yet: run `calmix evaluate` on it first")
        return Summary.read(self.summary_path)

    @property
    def history(self) -> list[Epoch]:
        """The epochs of training, of an unfinished run those so far; a damaged line is passed over."""
        paths = [self.folder / "metrics.jsonl"]
        if not paths[0].exists():
            paths = [self.stream_folder(k) / "metrics.jsonl" for k in range(self.recipe.streams)]
        return [epoch for path in paths for epoch in read_epochs(path)]


def read_epochs(path: Path) -> list[Epoch]:
    """The epochs of a `metrics.jsonl`; lines that cannot be read are passed over."""
    epochs = []
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                epochs.append(from_plain(Epoch, json.loads(line), str(path)))
    return epochs


def write_epochs(path: Path, epochs: Iterable[Epoch]) -> None:
    with files.replacing(path) as file:
        file.writelines(epoch_line(epoch) for epoch in epochs)


def epoch_line(epoch: Epoch) -> bytes:
    return json.dumps(json.loads(to_json(epoch))).encode() + b"\n"


def create(recipe: Recipe, out: Path, *, streams: bool = True) -> Run:
    """The folder of `recipe` below `out`, made if need be; fails at once where nothing can be written."""
    run = Run(out / recipe.name, recipe)
    try:
        run.folder.mkdir(parents=True, exist_ok=True)
        for member in range(recipe.streams if streams else 0):
            run.stream_folder(member).mkdir(parents=True, exist_ok=True)
        path = run.folder / "recipe.json"
        if not path.exists():
            _write_recipe(path, recipe)
    except OSError as error:
        raise InputError(f"cannot write to {run.folder}: {error.strerror}; choose another folder") from None
    return run


def _write_recipe(path: Path, recipe: Recipe) -> None:
    """Several processes may write it at once: the first to lock the folder removes the others' temporary
    files, and has written its own by then."""
    try:
        write_json(path, {"version": __version__} | json.loads(recipe.to_json()))
    except FileNotFoundError:
        if not path.exists():
            raise


def open_run(folder: Path) -> Run:
    """The run of a folder that has a `recipe.json`."""
    path = folder / "recipe.json"
    if not path.is_file():
        raise InputError(f"{folder} is no run: it has no recipe.json")
    return Run(folder, read_recipe(path))


def read_recipe(path: Path) -> Recipe:
    """The recipe of a `recipe.json`. The version that wrote it is for people: it changes nothing."""
    fields = read_json(path)
    if not isinstance(fields, dict):
        raise InputError(f"{path} must hold an object of recipe fields")
    try:
        return Recipe.from_json({name: value for name, value in fields.items() if name != "version"})
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def find_runs(folders: Sequence[Path], *, reporter: Reporter = ignore) -> list[Run]:
    """The runs named by folders: each a run itself, or a folder with runs in it, of which those that cannot
    be read are reported and left out."""
    if not folders:
        raise InputError("name at least one run folder, or a folder of runs")
    runs: dict[Path, Run] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
        single = (folder / "recipe.json").is_file()
        inside = [folder] if single else sorted(path.parent for path in folder.glob("*/recipe.json"))
        if not inside:
            raise InputError(f"{folder} holds no run (no recipe.json in it or one level below)")
        for path in inside:
            try:
                runs[path.resolve()] = open_run(path)
            except InputError as error:
                if single:
                    raise
                reporter(Message(f"{error}; this run is left out"))
    if not runs:
        raise InputError(f"{', '.join(map(str, folders))}: no recipe.json there can be read")
    return list(runs.values())
