"""`Predictor`: an ensemble and its calibrator as one module to deploy, from inputs to probabilities."""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from calmix import files
from calmix.calibrate.calibrator import calibrator_content, check_sizes
from calmix.calibrate.methods import FITS, calibrator_from
from calmix.ensembles import MCDropout
from calmix.errors import InputError
from calmix.metrics.trailing import class_rows, from_class_rows
from calmix.predictions import pool
from calmix.records import read_json, write_json

VERSION = 1


class Predictor(nn.Module):
    """x (B, ...) -> calibrated pooled probabilities (B, C, ...), in evaluation mode and float32 or wider.

    `model` gives logits (M, B, C, ...): a BatchEnsemble, a DeepEnsemble (of one network too), an MCDropout.
    `calibrator` is what `fit_calibrator` or `fit_temperature` returned; without one, members are pooled as
    they are. Both stay the same objects, and `model` is put into evaluation mode. Inputs after the first go
    by name.

    It has a `state_dict`, compiles, and exports with any number of rows:

        batch = torch.export.Dim("batch")
        torch.export.export(predictor, (x,), dynamic_shapes={"x": {0: batch}})
        torch.onnx.export(predictor, (x,), dynamo=True, dynamic_shapes={"x": {0: batch}})

    MCDropout cannot be exported: its masks depend on the number of rows, and a graph would hold those of one
    call.

    >>> from calmix import BatchEnsemble, fit_temperature
    >>> model = BatchEnsemble(nn.Linear(2, 3), members=4)
    >>> x = torch.randn(60, 2)
    >>> labels = model(x).mean(0).argmax(1)
    >>> labels[::3] = 0
    >>> predictor = Predictor(model, fit_temperature(model(x).detach(), labels))
    >>> predictor(x).shape, torch.allclose(predictor(x).sum(1), torch.ones(60))
    (torch.Size([60, 3]), True)
    """

    def __init__(self, model: nn.Module, calibrator: Any = None) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise InputError(f"model is a {type(model).__name__}; give an ensemble, e.g. DeepEnsemble([net])")
        if calibrator is not None and type(calibrator) not in {kind for kind, _ in FITS.values()}:
            raise InputError(
                f"calibrator is a {type(calibrator).__name__}; give what fit_calibrator returned, or None"
            )
        self.model = model
        self.calibrator = calibrator
        self.eval()

    def forward(self, x: Tensor, **named: Any) -> Tensor:
        if self.model.training:
            raise InputError("the model is in training mode; call predictor.eval() first")
        if torch.compiler.is_exporting() and any(
            isinstance(part, MCDropout) for part in self.model.modules()
        ):
            raise InputError(
                "MCDropout cannot be exported: it draws its masks anew for every number of rows, and a graph "
                "would hold those of one call. Deploy it as a module (save, load, torch.compile), or export "
                "a DeepEnsemble or BatchEnsemble"
            )
        logits = self.model(x, **named)
        if not isinstance(logits, Tensor) or logits.ndim < 3:
            given = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
            raise InputError(
                f"the model returned {given} instead of logits (members, rows, classes); wrap a plain "
                "network: DeepEnsemble([network])"
            )
        rows = class_rows(logits, axis=2)
        if self.calibrator is None:
            return from_class_rows(pool(rows), tuple(logits.shape[1:]))
        check_sizes(self.calibrator, logits)
        probs = self.calibrator.probs(rows.to(torch.promote_types(rows.dtype, torch.float32)))
        return from_class_rows(probs, tuple(logits.shape[1:]))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `predictor.json` and `weights-<digest>.safetensors`; nothing is pickled.

        The JSON file names the weights and is replaced last: an interrupted save leaves the old predictor. It
        also holds the calibrator and what the modules are, so that `load` can tell another architecture.
        """
        from safetensors.torch import save  # loaded when first used

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tensors, extra = {}, {}
        for name, value in self.model.state_dict().items():
            if isinstance(value, Tensor):
                tensors[name] = value.detach().cpu().contiguous().clone()
            else:
                extra[name] = _plain(name, value)
        weights = save(tensors)
        name = f"weights-{hashlib.sha256(weights).hexdigest()[:16]}.safetensors"
        with files.replacing(folder / name) as file:
            file.write(weights)
        content = {
            "version": VERSION,
            "weights": name,
            "modules": describe(self.model),
            "seeds": _seeds(self.model),
            "extra": extra,
            "calibrator": None if self.calibrator is None else calibrator_content(self.calibrator),
        }
        write_json(folder / "predictor.json", content)
        for old in folder.glob("weights-*.safetensors"):
            if old.name != name:
                old.unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], model: nn.Module) -> "Predictor":
        """The predictor that `save` wrote, with its weights loaded into `model`, built like the saved one.

        A model of other modules, options or shapes is refused and left as it was.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load

        path = Path(folder) / "predictor.json"
        if not path.is_file():
            raise InputError(f"{folder} holds no predictor: it has no predictor.json")
        content = read_json(path)
        keys = {"version", "weights", "modules", "seeds", "extra", "calibrator"}
        if not isinstance(content, dict) or content.get("version") != VERSION or content.keys() != keys:
            raise InputError(f"{path} is not a predictor of version {VERSION}, which this calmix reads")
        _compare_modules(content["modules"], describe(model), path)
        weights = Path(folder) / Path(str(content["weights"])).name
        try:
            saved = load(weights.read_bytes()) | content["extra"]
        except (OSError, SafetensorError) as error:
            raise InputError(f"{weights} cannot be read: {error}") from None
        _compare_weights(saved, model.state_dict(), path)
        numbers = content["calibrator"]
        calibrator = None if numbers is None else calibrator_from(numbers, f"{path}, calibrator")
        model.load_state_dict(saved)
        for name, seed in content["seeds"].items():
            model.get_submodule(name).reseed(seed)  # type: ignore[operator]
        return cls(model, calibrator)


def describe(model: nn.Module) -> dict[str, str]:
    """What each module is: its type and options, by name; addresses of objects are left out."""
    parts = {}
    for name, part in model.named_modules():
        # MC-dropout has as many members as its mode says, and always as many samples.
        count = "samples" if hasattr(part, "samples") else "members"
        sizes = f"{count}={getattr(part, count)}" if hasattr(part, count) else ""
        options = re.sub(r"0x[0-9a-f]+", "...", part.extra_repr())
        parts[name] = f"{type(part).__name__}({', '.join(filter(None, (options, sizes)))})"
    return parts


def _compare_modules(saved: Any, own: dict[str, str], path: Path) -> None:
    if not isinstance(saved, dict):
        raise InputError(f"{path}: modules must be an object")
    for name in sorted(saved.keys() | own.keys()):
        if saved.get(name) != own.get(name):
            raise InputError(
                f"{path} was saved from another architecture: {name or 'the model itself'} is "
                f"{saved.get(name, 'nothing')} there and {own.get(name, 'nothing')} in model; build model "
                "with the code and options it was trained with"
            )


def _compare_weights(saved: dict[str, Any], own: dict[str, Any], path: Path) -> None:
    for name in sorted(saved.keys() | own.keys()):
        there, here = (_kind(state, name) for state in (saved, own))
        if there != here:
            raise InputError(
                f"{path} was saved from another architecture: {name} is {there} there and {here} in model; "
                "build model with the code and options it was trained with"
            )


def _kind(state: dict[str, Any], name: str) -> str:
    if name not in state:
        return "missing"
    value = state[name]
    if not isinstance(value, Tensor):
        return "a value"
    return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"


def _seeds(model: nn.Module) -> dict[str, int]:
    """The seeds of all MCDropouts: their masks in evaluation follow from them."""
    return {name: part.seed for name, part in model.named_modules() if isinstance(part, MCDropout)}


def _plain(name: str, value: Any) -> Any:
    """A value of `get_extra_state` that JSON gives back as it was."""
    try:
        same = json.loads(json.dumps(value)) == value
    except (TypeError, ValueError):
        same = False
    if not same:
        raise InputError(
            f"{name} of the state is a {type(value).__name__}, which JSON cannot hold; let get_extra_state "
            "return a tensor, numbers or strings"
        )
    return value
