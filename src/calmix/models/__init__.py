"""The networks of the paper, and a small one: float inputs in [0, 1] -> logits, normalisation included."""

from calmix.models.perceptron import mlp
from calmix.models.preactivation import small_resnet, wide_resnet
from calmix.models.resnet import resnet50

__all__ = ["mlp", "resnet50", "small_resnet", "wide_resnet"]
