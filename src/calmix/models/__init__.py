"""The networks of the paper, and a small one: float inputs in [0, 1] -> logits, normalisation included."""

from calmix.models.mlp import mlp
from calmix.models.resnet import resnet50
from calmix.models.small_resnet import small_resnet
from calmix.models.wide_resnet import wide_resnet

__all__ = ["mlp", "resnet50", "small_resnet", "wide_resnet"]
