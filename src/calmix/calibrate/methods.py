"""`fit_calibrator` and `load_calibrator`: every calibrator by the name of its method."""

import os
from pathlib import Path
from typing import Any, Literal, TypeAlias

from calmix.calibrate.beta import Beta, fit_beta
from calmix.calibrate.calibrator import VERSION, Calibrator
from calmix.calibrate.conformal import Conformal
from calmix.calibrate.isotonic import Isotonic, fit_isotonic
from calmix.calibrate.joint import Joint, fit_joint
from calmix.calibrate.temperature import Order, Temperature, fit_temperature
from calmix.calibrate.vector import Vector, fit_vector
from calmix.errors import InputError, one_of
from calmix.metrics.checks import Array
from calmix.records import read_json

Method: TypeAlias = Literal["temperature", "joint", "vector", "isotonic", "beta"]
FITS: dict[str, tuple[Any, Any]] = {
    "temperature": (Temperature, fit_temperature),
    "joint": (Joint, fit_joint),
    "vector": (Vector, fit_vector),
    "isotonic": (Isotonic, fit_isotonic),
    "beta": (Beta, fit_beta),
}
KINDS: dict[str, Any] = {method: kind for method, (kind, _) in FITS.items()} | {"conformal": Conformal}


def fit_calibrator(
    logits: Array,
    labels: Array,
    *,
    method: Method = "temperature",
    order: Order = "pool",
    ignore_index: int | None = None,
) -> Calibrator:
    """Fit a calibrator of the pooled prediction to logits (M, N, C) and labels (N,) of held-out data.

    - "temperature": one number; `order` is where it acts (`fit_temperature`).
    - "joint": a temperature, and a factor for the members' spread. For ensembles.
    - "vector": a factor and an offset per class. For class-wise errors, with many examples per class.
    - "isotonic": a rising curve per class. For errors of any shape, with thousands of examples.
    - "beta": three numbers, two classes.

    The result is called like a module, on logits of the same ensemble: `fitted(logits)` are probabilities
    (N, C). `fitted.save(path)` writes JSON that `load_calibrator` reads. Of logits (M, N, C, H, W) with
    labels (N, H, W) every pixel is an example, and those labelled `ignore_index` are left out.

    >>> import torch
    >>> logits, labels = torch.tensor([[[2.0, 0.0]] * 4]), torch.tensor([0, 0, 0, 1])
    >>> fit_calibrator(logits, labels, method="joint")(logits)[0]  # correct in 3 of 4
    tensor([0.7500, 0.2500])
    """
    one_of("method", method, FITS)
    if method == "temperature":
        return fit_temperature(logits, labels, order=order, ignore_index=ignore_index)
    if order != "pool":
        raise InputError(f"order is {order!r}, but only method='temperature' has an order: leave it out")
    fitted: Calibrator = FITS[method][1](logits, labels, ignore_index=ignore_index)
    return fitted


def load_calibrator(path: str | os.PathLike[str]) -> Any:
    """Read what `fitted.save(path)` wrote, a calibrator or conformal sets: the same numbers, bit for bit."""
    return calibrator_from(read_json(Path(path)), str(path))


def calibrator_from(content: Any, where: str) -> Any:
    """The calibrator of a file's content; `where` begins every error."""
    # "fitted_on" is what the command line notes of the data, to notice an overlap with others.
    if not isinstance(content, dict) or content.keys() - {"fitted_on"} != {"method", "version", "numbers"}:
        raise InputError(
            f"{where} is not a calibrator: it must be an object with method, version and numbers"
        )
    method, numbers = content["method"], content["numbers"]
    if content["version"] != VERSION:
        raise InputError(f"{where} has version {content['version']!r:.20}; this calmix reads {VERSION}")
    if not isinstance(method, str) or not isinstance(numbers, dict):
        raise InputError(f"{where}: method must be a string and numbers an object")
    one_of(f"method in {where}", method, KINDS)
    try:
        return KINDS[method](**numbers)
    except (TypeError, InputError) as error:  # a TypeError is a missing or an unknown key
        raise InputError(
            f"{where}: numbers of {method}: {str(error).partition('__init__() ')[2] or error}"
        ) from None
