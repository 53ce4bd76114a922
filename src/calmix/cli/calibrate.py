"""`calmix calibrate`"""

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor

from calmix import metrics
from calmix.calibrate import Order, fit_temperature
from calmix.cli.audit import load_members
from calmix.errors import InputError
from calmix.predictions import pool, save_predictions
from calmix.records import to_json

METRICS = {"accuracy": metrics.accuracy, "nll": metrics.nll, "ece": metrics.ece, "gap": metrics.gap}


@dataclass(frozen=True)
class Calibrate:
    """Fit a temperature on validation predictions and write calibrated test predictions.

    Example: calmix calibrate --validation validation.npz --test test.npz --out calibrated.npz

    Written are the pooled probabilities, as logits of one member: the form that all three orders share.
    """

    validation: tuple[Path, ...]
    """Predictions to fit on; several files are the members of one ensemble."""
    test: tuple[Path, ...]
    """Predictions to calibrate, of the same ensemble."""
    out: Path
    """Where to write them (.npz)."""
    order: Order = "pool"
    """Scale the pooled prediction, each member before pooling, or each by a temperature of its own."""
    values: Literal["logits", "probs"] | None = None
    """What the numbers are, where the files do not say."""
    json: bool = False
    """Print JSON and nothing else."""


def main(arguments: list[str]) -> None:
    args = tyro.cli(Calibrate, args=arguments, prog="calmix calibrate")
    validation, test = (load_members(files, args.values) for files in (args.validation, args.test))
    one, other = (f"{len(p.logits)} members and {p.logits.shape[2]} classes" for p in (validation, test))
    if one != other:
        raise InputError(f"--validation has {one}, --test {other}: give the same ensemble")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit_temperature(validation.logits, validation.labels, order=args.order)
    for warning in caught:
        print(f"calmix: {warning.message}", file=sys.stderr)
    calibrated = torch.as_tensor(fitted.apply(test.logits.double()))
    logits = calibrated.log().to(test.logits.dtype)
    save_predictions(args.out, logits[None], test.labels, ids=test.ids, groups=test.groups)
    before, after = _metrics(pool(test.logits.double()), test.labels), _metrics(calibrated, test.labels)
    temperature = torch.as_tensor(fitted.temperature).tolist()
    if args.json:
        numbers = {"temperature": temperature, "order": fitted.order, "before": before, "after": after}
        print(to_json(numbers))
        return
    table = Table("test", "before", "after")
    for name in METRICS:
        shown = ("{:.4g}" if name == "nll" else "{:.2%}").format
        table.add_row(name, shown(before[name]), shown(after[name]))
    console = Console()
    console.print(f"temperature ({fitted.order}): {temperature}")
    console.print(table)
    console.print(f"written: {args.out}", soft_wrap=True)


def _metrics(probs: Tensor, labels: Tensor) -> dict[str, float]:
    return {name: metric(probs, labels) for name, metric in METRICS.items()}
