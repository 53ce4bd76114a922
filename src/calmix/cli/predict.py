"""`calmix predict`"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from safetensors import SafetensorError, safe_open
from torch import Tensor

from calmix import files
from calmix.calibrate import Temperature
from calmix.data.dataset import Draws
from calmix.errors import InputError, at_least
from calmix.predictions import pool
from calmix.progress import Display, Finished, Message, Progress
from calmix.runs.folder import Run, open_run
from calmix.runs.predict import predict_logits

COLUMNS = {"labels": "label", "ids": "id"}  # of the input file, kept for an audit: array and CSV column


@dataclass(frozen=True)
class Predict:
    """Probabilities of a trained run for new inputs, pooled over its members.

    Example: calmix predict runs/digits-deep-camixup-seed0-0123456789 new.npz --out probs.csv --calibrated

    The inputs are the array "x" of an .npz file: images uint8 (N, H, W, C), or floats as the network sees
    them, (N, C, H, W) in [0, 1], or (N, F). Arrays "labels" and "ids" (N,) are kept beside the probabilities.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """Run folder."""
    file: Annotated[Path, tyro.conf.Positional]
    """Inputs (.npz with "x")."""
    out: Path = Path("probs.npz")
    """Where to write them: .npz with "probs" (N, C), or .csv with a column for each class."""
    calibrated: bool = False
    """With the temperature that the run's evaluation fitted on validation data."""
    batch_size: int = 500
    """Inputs at once."""
    device: str = "cpu"
    """Where to compute: cpu, cuda, ..."""


def main(arguments: list[str]) -> None:
    args = tyro.cli(Predict, args=arguments, prog="calmix predict")
    at_least("--batch-size", args.batch_size, 1)
    if args.out.suffix not in (".npz", ".csv"):
        raise InputError(f"--out must end in .npz or .csv, got {args.out}")
    if not args.out.absolute().parent.is_dir():
        raise InputError(f"--out {args.out}: there is no such folder")
    run = open_run(args.run)
    temperature = _temperature(run) if args.calibrated else None
    model = run.model()
    inputs, columns = read_inputs(args.file, _shape(run))
    with Display() as display:
        if not inputs.bytes and len(inputs.shape) == 3 and not inputs.in_unit_interval():
            display(Message(f"{args.file}: x has values outside 0..1, where images usually are"))
        logits = predict_logits(
            model.to(args.device),
            inputs,
            batch_size=args.batch_size,
            seed=run.recipe.seed,
            device=args.device,
            progress=lambda done, total: display(Progress("predict", done, total)),
        )
        display(Finished("predict", f"{len(inputs)} inputs"))
    wide = logits.double()  # in float32 a confident mistake would have probability 0
    probs = pool(wide) if temperature is None else temperature(wide)
    write_probs(args.out, probs.numpy(), _classes(run, probs.shape[1]), columns)
    print(f"written: {args.out}")


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs without labels, in the form that batches are read from: (N, *shape), images channels first."""

    rows: Tensor

    @property
    def bytes(self) -> bool:
        return self.rows.dtype == torch.uint8

    @property
    def labels(self) -> Tensor:
        return torch.zeros(len(self.rows), dtype=torch.int64)

    @property
    def groups(self) -> None:
        return None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.rows.shape[1:])

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: Tensor) -> "Inputs":
        return Inputs(self.rows[index])

    def read(self, batches: Sequence[Tensor], draws: Draws | None = None) -> Iterator[Tensor]:
        return (self.rows[index] for index in batches)

    def in_unit_interval(self) -> bool:
        low, high = self.rows.aminmax()
        return bool(low >= 0 and high <= 1)


def read_inputs(path: Path, shape: tuple[int, ...]) -> tuple[Inputs, dict[str, Any]]:
    """The inputs of a file for a network of inputs `shape`, and its columns "labels" and "ids"."""
    if path.suffix != ".npz":
        raise InputError(f'{path} must be an .npz file with an array "x"')
    try:
        with np.load(path, allow_pickle=False) as file:
            if "x" not in file:
                raise InputError(f'{path} has no array "x", but {", ".join(map(repr, file.files))}')
            x, columns = file["x"], {name: file[name] for name in COLUMNS if name in file}
    except InputError:
        raise
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if x.ndim == 0 or not len(x):
        raise InputError(f"{path}: x has shape {x.shape}: there is no input in it")
    for name, column in columns.items():
        if column.shape != x.shape[:1]:
            raise InputError(f"{path}: {name} has shape {column.shape}, x {x.shape}: give one for each input")
    images, expected = len(shape) == 3, f"floats (N, {', '.join(map(str, shape))})"
    if images:
        last = (*shape[1:], shape[0])
        expected = f"uint8 (N, {', '.join(map(str, last))}) or {expected}"
    if x.dtype == np.uint8 and images and x.shape[1:] == last:
        return Inputs(torch.from_numpy(np.ascontiguousarray(x)).permute(0, 3, 1, 2)), columns
    if x.dtype.kind != "f" or x.shape[1:] != shape:
        raise InputError(f"{path}: x is {x.dtype} {x.shape}; this run's network takes {expected}")
    rows = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
    wrong = ~rows.isfinite().flatten(1).all(1)
    if wrong.any():
        raise InputError(f"{path}: x[{int(wrong.nonzero()[0])}] is not finite: fix or drop it")
    return Inputs(rows), columns


def write_probs(path: Path, probs: Any, classes: Sequence[str], columns: dict[str, Any]) -> None:
    """Write probabilities (N, C) as `.npz` or `.csv`, atomically."""
    with files.replacing(path) as file:
        if path.suffix == ".npz":
            np.savez(file, probs=probs, classes=np.array(classes), **columns)
            return
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*(COLUMNS[name] for name in columns), *classes])
        values = zip(*(column.tolist() for column in columns.values()), strict=True) if columns else None
        for row in probs.tolist():
            writer.writerow([*(next(values) if values else ()), *row])
        text.detach()


def _temperature(run: Run) -> Temperature:
    value = run.summary.temperature
    if value is None:
        raise InputError(
            f"{run.folder} has no temperature, because it was trained on its validation images: leave out "
            "--calibrated"
        )
    return Temperature(temperature=value, order="pool", nll_before=None, nll_after=None)


def _shape(run: Run) -> tuple[int, ...]:
    """The shape of one input, as the run's weights have it."""
    try:
        with safe_open(run.model_path, framework="pt") as file:
            return tuple(json.loads(file.metadata()["task"])["shape"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{run.model_path} does not say what its inputs are: {error}") from None


def _classes(run: Run, count: int) -> tuple[str, ...]:
    """The names of the classes where the run was evaluated, otherwise their numbers."""
    names = run.summary.classes if run.summary_path.exists() else ()
    return names if len(names) == count else tuple(map(str, range(count)))
