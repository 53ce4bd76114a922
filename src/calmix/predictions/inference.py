"""`predict`: an ensemble and a loader of batches -> `Predictions`."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calmix.errors import InputError
from calmix.predictions.container import Predictions

LABELS = ("labels", "label", "targets", "target", "y")
IDS = ("ids", "id")


@torch.inference_mode()
def predict(
    model: nn.Module, loader: Iterable[Any], *, device: torch.device | str | None = None
) -> Predictions:
    """Predictions of an ensemble for every example of a loader, in its order; on the CPU, in float32.

    The model maps x (B, ...) to logits (M, B, C), in eval and inference mode; afterwards every submodule has
    the mode that it had. A batch is (x, y) or (x1, x2, ..., y), a dictionary with "labels" (its other tensors
    are passed by name; "ids" are kept), or x alone, without labels. The model stays where it is unless
    `device` is given; then it is there for as long as this takes. The samples of MC-dropout follow from its
    seed: the same call gives the same predictions.

    >>> from calmix import DeepEnsemble
    >>> model = DeepEnsemble([nn.Linear(2, 3), nn.Linear(2, 3)])
    >>> predict(model, [(torch.rand(5, 2), torch.zeros(5, dtype=torch.long))])
    Predictions of 2 members for 5 examples of 3 classes, with labels
    """
    home = next((p.device for p in model.parameters()), torch.device("cpu"))
    place = home if device is None else torch.device(device)
    logits: list[Tensor] = []
    labels: list[Any] = []
    ids: list[Any] = []
    if reseed := getattr(model, "reseed", None):
        reseed(model.seed)
    with _evaluating(model, home, place):
        for number, batch in enumerate(loader):
            inputs, named, y, own = _split(batch, number)
            first = next(iter([*inputs, *named.values()]))
            rows = first.shape[0] if first.ndim else 0
            inputs, named = [x.to(place) for x in inputs], {k: x.to(place) for k, x in named.items()}
            logits.append(_logits(model(*inputs, **named), rows))
            for kept, column in ((labels, y), (ids, own)):
                if column is not None:
                    kept.append(_column(column, rows, number))
    if not logits:
        raise InputError("the loader has no batches: there is nothing to predict")
    for name, kept in (("labels", labels), ("ids", ids)):
        if len(kept) not in (0, len(logits)):
            raise InputError(f"{len(kept)} of {len(logits)} batches have {name}: give all of them, or none")
    try:
        joined = torch.cat(logits, dim=1)
    except RuntimeError:
        shapes = " and ".join(dict.fromkeys(f"({len(z)}, B, {z.shape[2]})" for z in logits))
        raise InputError(f"the model's logits differ between batches: {shapes}") from None
    columns = [np.concatenate(kept) if kept else None for kept in (labels, ids)]
    return Predictions(joined, columns[0], ids=columns[1])  # type: ignore[arg-type]


@contextlib.contextmanager
def _evaluating(model: nn.Module, home: torch.device, place: torch.device) -> Iterator[None]:
    """Eval mode and `place` for a while; the mode of every submodule and the device are restored."""
    training = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        if place != home:
            model.to(place)
        yield
    finally:
        for module, mode in training:
            module.training = mode
        if place != home:
            model.to(home)


def _split(batch: Any, number: int) -> tuple[list[Tensor], dict[str, Tensor], Any, Any]:
    """Positional inputs, named inputs, labels and ids of a batch."""
    inputs: list[Tensor] = []
    named: dict[str, Tensor] = {}
    labels = ids = None
    if isinstance(batch, Tensor):
        inputs = [batch]
    elif isinstance(batch, Mapping):
        labels, ids = (next((batch[k] for k in keys if k in batch), None) for keys in (LABELS, IDS))
        others = {k: v for k, v in batch.items() if k not in LABELS + IDS and isinstance(v, Tensor)}
        if len(others) == 1:
            inputs = list(others.values())
        named = others if len(others) > 1 else {}
    elif isinstance(batch, tuple | list) and all(isinstance(x, Tensor) for x in batch[:1]):
        inputs, labels = (list(batch[:-1]), batch[-1]) if len(batch) > 1 else (list(batch), None)
    if (not inputs and not named) or not all(isinstance(x, Tensor) for x in inputs):
        raise InputError(
            f"batch {number} of the loader is a {type(batch).__name__}: it must be (x, y), a dictionary of "
            "tensors with 'labels', or x alone"
        )
    return inputs, named, labels, ids


def _logits(out: Any, rows: int) -> Tensor:
    if not isinstance(out, Tensor):
        raise InputError(
            f"the model returned a {type(out).__name__}, not logits (M, B, C): "
            'wrap it and say where they are: DeepEnsemble([net], output="logits")'
        )
    if out.ndim == 2 and out.shape[0] == rows:
        raise InputError(
            f"the model returned (B, C) = {tuple(out.shape)}, a single network: wrap it: DeepEnsemble([net])"
        )
    if out.ndim != 3 or out.shape[1] != rows:
        raise InputError(f"the model made {tuple(out.shape)} of {rows} rows: it must return logits (M, B, C)")
    return out.float().cpu()


def _column(values: Any, rows: int, number: int) -> Any:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.shape != (rows,):
        raise InputError(f"batch {number} has labels or ids of shape {array.shape} for {rows} rows")
    return array
