"""Checks of a converted network on an example: each member is what it is alone, and what the original is."""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from calmix.ensembles.inputs import Inputs
from calmix.ensembles.layers import RankOne, is_layer
from calmix.ensembles.outputs import take_logits
from calmix.errors import InputError

if TYPE_CHECKING:
    from calmix.ensembles.batch import BatchEnsemble

MIN_AGREEMENT = 0.9
"""Below this mean agreement of the members' top labels with the original's, a conversion is far from it."""
MIN_CONFIDENCE = 0.25
"""A network counts as trained if its mean confidence is this share of the way from 1 / C to 1."""


@torch.no_grad()
def check_conversion(ensemble: "BatchEnsemble", module: nn.Module, example: Inputs) -> None:
    """Raise InputError if a member folded together with the others is not what it is alone.

    With r = s = 1, every member must also equal the original. Member k sees the k-th row of the example,
    repeated, so that any mixing of rows shows. No layer of the original may be called meanwhile: a function
    that refers to it cannot be converted.
    """
    trial, original = copy.deepcopy(ensemble).eval(), copy.deepcopy(module).eval()
    rows = example.map(
        lambda x: torch.stack([x[k % len(x)].expand_as(x) for k in range(ensemble.members)])
    )

    def alone(network: nn.Module, k: int) -> Tensor:
        own = rows.map(lambda x: x[k].clone())
        return take_logits(own.call(network), ensemble.output, len(own.first), ensemble.kind)

    with refused_calls(module):
        for k, logits in enumerate(trial._folded(rows.map(torch.clone))):
            demand(ensemble.kind, logits, alone(trial.member(k), k), f"member {k} differs from itself alone")
    for part in trial.modules():
        if isinstance(part, RankOne):
            part.r.fill_(1)
            part.s.fill_(1)
    for k, logits in enumerate(trial._folded(rows.map(torch.clone))):
        complaint = f"member {k} with r = s = 1 differs from the original"
        demand(ensemble.kind, logits, alone(original, k), complaint)


def demand(kind: str, logits: Tensor, expected: Tensor, complaint: str) -> None:
    tolerance = 3 * torch.finfo(expected.dtype).eps ** 0.5
    scale = float(expected.abs().max())
    if not torch.allclose(logits, expected, rtol=tolerance, atol=tolerance / 10 * scale):
        raise InputError(
            f"{kind} cannot be converted: on the example, {complaint} by up to "
            f"{float((logits - expected).abs().max()):.3g}. Does it mix rows, or move them from the first axis?"
        )


@torch.no_grad()
def warn_if_far(ensemble: "BatchEnsemble", module: nn.Module, example: Inputs) -> None:
    """Warn if the conversion of a trained network changes what it predicts on the example.

    The rule: members agree with the original's top label on less than 90 % of the example, averaged over
    members, while the original's mean confidence is above 1 / C + 0.25 (1 - 1 / C). An untrained network, with
    confidences near 1 / C, has nothing to lose and causes no warning.
    """
    trial, original = copy.deepcopy(ensemble).eval(), copy.deepcopy(module).eval()
    result = example.map(torch.clone).call(original)
    expected = take_logits(result, ensemble.output, len(example.first), ensemble.kind)
    if expected.ndim < 2 or expected.shape[1] < 2:
        return
    chance = 1 / expected.shape[1]
    confidence = float(expected.float().softmax(1).amax(1).mean())
    logits = trial._folded(example.map(lambda x: x.expand(ensemble.members, *x.shape).clone()))
    agreement = float((logits.argmax(2) == expected.argmax(1)).float().mean())
    if agreement < MIN_AGREEMENT and confidence > chance + MIN_CONFIDENCE * (1 - chance):
        warnings.warn(
            f"the members agree with the original {ensemble.kind} on {agreement:.0%} of the example's top "
            f"labels, below {MIN_AGREEMENT:.0%}: the default init_std=0.5 is for training from scratch; to "
            "fine-tune a trained network, convert it with init_std=0.1",
            UserWarning,
            stacklevel=3,
        )


@contextmanager
def refused_calls(module: nn.Module) -> Iterator[None]:
    """Raise InputError, with its name, for any layer of `module` that is called meanwhile."""

    def refuse(name: str) -> None:
        raise InputError(
            f"{name} of the original is called by its converted copy, so something other than a module refers "
            "to it (a lambda, for example): make that a method"
        )

    layers = [(name, part) for name, part in module.named_modules() if is_layer(part)]
    handles = [part.register_forward_pre_hook(lambda *_, name=name: refuse(name)) for name, part in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
