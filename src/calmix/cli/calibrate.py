"""`calmix calibrate fit` and `calmix calibrate apply`"""

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from torch import Tensor

from calmix import metrics
from calmix.auditing import audit
from calmix.auditing.overlap import find_overlap, sketch
from calmix.auditing.remedies import NOTHING, candidates
from calmix.calibrate import Calibrator, Order, Temperature, fit_calibrator, load_calibrator
from calmix.calibrate.methods import Method
from calmix.cli.reading import Reading, as_flags, check_output, read_one, show
from calmix.errors import InputError, one_of
from calmix.prediction_files import format_of
from calmix.predictions import Predictions, save_predictions
from calmix.predictions.pooling import pool_rows
from calmix.records import read_json, to_json, write_json

METRICS = {"accuracy": metrics.accuracy, "nll": metrics.nll, "ece": metrics.ece, "gap": metrics.gap}


@dataclass(frozen=True)
class Fit:
    """Fit a calibrator on validation predictions.

    Example: calmix calibrate fit validation.npz --method auto --out calibrator.json
    """

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Validation predictions, which no training has seen."""
    out: Path
    """Where to write the calibrator (JSON)."""
    reading: tyro.conf.OmitArgPrefixes[Reading]
    method: Literal["auto", Method] = "auto"
    """auto is the one that cross-validation recommends."""
    order: Order = "pool"
    """Where a temperature acts: on the pool, on every member before pooling, or on each by one of its own."""
    members: bool = False
    """Several files are the members of one ensemble."""
    seed: int = 0
    """Seed of the cross-validation folds."""
    json: bool = False
    """Print JSON and nothing else."""


@dataclass(frozen=True)
class Apply:
    """Calibrate predictions, with labels or without.

    Example: calmix calibrate apply calibrator.json test.parquet --out test_calibrated.parquet

    Writes the calibrated pooled probabilities of each example, with its id, label and groups.
    """

    calibrator: Annotated[Path, tyro.conf.Positional]
    """What `calmix calibrate fit` wrote."""
    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Predictions of the same model."""
    out: Path
    """Where to write them; the suffix is the format."""
    reading: tyro.conf.OmitArgPrefixes[Reading]
    members: bool = False
    """Several files are the members of one ensemble."""
    json: bool = False
    """Print JSON and nothing else."""


COMMANDS: dict[str, Any] = {"fit": Fit, "apply": Apply}
USAGE = """usage: calmix calibrate fit VALIDATION --out CALIBRATOR.json
       calmix calibrate apply CALIBRATOR.json TEST --out CALIBRATED

Example: calmix calibrate fit validation.npz --out calibrator.json

`calmix calibrate fit --help` and `calmix calibrate apply --help` show the options with an example."""


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    one_of("command of calibrate", arguments[0], COMMANDS)
    prog = f"calmix calibrate {arguments[0]}"
    args = tyro.cli(COMMANDS[arguments[0]], args=arguments[1:], prog=prog)
    try:
        return fit(args) if isinstance(args, Fit) else apply(args)
    except InputError as error:
        raise InputError(as_flags(str(error))) from None


def fit(args: Fit) -> int:
    check_output(args.out, "--out", args.files)
    if args.order != "pool" and args.method != "temperature":
        raise InputError(f"--order {args.order} is for --method temperature")
    predictions = read_one(args.files, args.reading, members=args.members)
    if predictions.labels is None:
        raise InputError("the predictions have no labels: a calibrator is fitted to them (--label)")
    tried: dict[str, float] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        method: str = args.method
        order: Order = args.order
        name: str = method
        if method == "auto":
            remedies = audit(predictions, seed=args.seed).remedies
            name = next(remedy.method for remedy in remedies if remedy.recommended)
            tried = {remedy.method: remedy.nll for remedy in remedies}
            chosen = [c for c in candidates(*predictions.logits.shape[::2]) if c.name == name]
            method, order = (chosen[0].method, chosen[0].order) if chosen else (NOTHING, "pool")
        fitted = _fit(predictions, method, order)
    fitted.save(args.out)
    data: dict[str, Any] = {"members": len(predictions.logits), "classes": predictions.logits.shape[2]}
    data |= {"class_names": predictions.classes, **sketch(predictions)}
    write_json(args.out, read_json(args.out) | {"fitted_on": data}, indent=None)
    losses = {"nll_before": fitted.nll_before, "nll_after": fitted.nll_after}
    if args.json:
        numbers: dict[str, Any] = {"method": name, **losses, "examples": len(predictions)}
        show(to_json(numbers | {"cross_validated_nll": tried, "numbers": fitted.numbers()}))
        return 0
    _print_warnings(caught)
    lines = [f"{each:<28} {nll:.4f}{'  <- chosen' * (each == name)}" for each, nll in tried.items()]
    if lines:
        lines.insert(0, "cross-validated NLL; the simplest within noise of the best is chosen:")
    if method == NOTHING:
        lines.append("no method helps for sure: what is written changes nothing (a temperature of 1)")
    lines.append(f"{name}: NLL {fitted.nll_before:.4f} -> {fitted.nll_after:.4f} on the data of the fit")
    show("\n".join([*lines, f"written: {args.out}"]))
    return 0


def _fit(predictions: Predictions, method: str, order: Order) -> Calibrator:
    labels = predictions.labels
    assert labels is not None
    if method == NOTHING:
        nll = metrics.nll(pool_rows(predictions.logits), labels)
        return Temperature(temperature=1.0, order="pool", nll_before=nll, nll_after=nll)
    return fit_calibrator(predictions.logits, labels, method=method, order=order)  # type: ignore[arg-type]


def apply(args: Apply) -> int:
    check_output(args.out, "--out", [args.calibrator, *args.files])
    format_of(args.out)
    calibrator = load_calibrator(args.calibrator)
    predictions = read_one(args.files, args.reading, members=args.members)
    note = _check_data(args, predictions)
    calibrated = torch.as_tensor(calibrator(predictions.logits.double()))
    save_predictions(
        args.out,
        calibrated.to(predictions.logits.dtype),
        predictions.labels,
        values="probs",
        ids=predictions.ids,
        groups=predictions.groups,
        classes=predictions.classes,
    )
    numbers: dict[str, Any] = {"method": calibrator.method, "examples": len(predictions), "overlap": note}
    if predictions.labels is not None:
        pair = {"before": pool_rows(predictions.logits), "after": calibrated}
        numbers |= {name: _metrics(probs, predictions.labels) for name, probs in pair.items()}
    if args.json:
        show(to_json(numbers))
        return 0
    lines = []
    if note:
        print(f"calmix: {note}", file=sys.stderr)
    if "before" in numbers:
        lines.append(f"{'':<10}{'before':>10}{'after':>10}")
        for name in METRICS:
            text = ("{:.4f}" if name == "nll" else "{:.2%}").format
            before, after = (text(numbers[side][name]) for side in ("before", "after"))
            lines.append(f"{name:<10}{before:>10}{after:>10}")
    show("\n".join([*lines, f"written: {args.out}"]))
    return 0


def _check_data(args: Apply, predictions: Predictions) -> str | None:
    """Refuse another model's predictions; say so where examples of the fit are among these."""
    data = read_json(args.calibrator).get("fitted_on")
    if not isinstance(data, dict):
        return None
    members, _, classes = predictions.logits.shape
    try:
        for name, size in (("members", members), ("classes", classes)):
            if data[name] != size:
                raise InputError(
                    f"{args.calibrator} was fitted for {data[name]} {name}, but the predictions have {size}: "
                    "give those of the same model"
                )
        names = data["class_names"]
        if names and predictions.classes and tuple(names) != predictions.classes:
            raise InputError(f"{args.calibrator} was fitted for other classes, or for another order of them")
        return find_overlap(data, predictions).text
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"{args.calibrator}: fitted_on cannot be read: {error!r:.80}") from None


def _print_warnings(caught: list[warnings.WarningMessage]) -> None:
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        print(f"calmix: {text}", file=sys.stderr)


def _metrics(probs: Tensor, labels: Tensor) -> dict[str, float]:
    return {name: metric(probs, labels) for name, metric in METRICS.items()}
