"""The networks of the paper, and a small one: float inputs in [0, 1] -> logits, normalisation included."""

from collections.abc import Callable
from typing import Any

from torch import nn

from calmix.models.perceptron import mlp
from calmix.models.preactivation import small_resnet, wide_resnet
from calmix.models.resnet import resnet50

NETWORKS: dict[str, tuple[Callable[..., nn.Module], dict[str, Any]]] = {
    "small_resnet": (small_resnet, {}),
    "wide_resnet": (wide_resnet, {"depth": 28, "width": 10}),
    "resnet50": (resnet50, {}),
    "mlp": (mlp, {"hidden": 64}),
}
"""Networks by the name that recipes give them, with the options that they have no default for."""

__all__ = ["mlp", "resnet50", "small_resnet", "wide_resnet"]
