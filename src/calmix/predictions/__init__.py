"""Prediction contract: logits (M, N, C) and labels (N,).

A single model has M = 1. Pooling, the mean of the members' probabilities, happens in `pool` and nowhere else.
"""

from calmix.predictions.checks import NumpyArray, refuse_probs
from calmix.predictions.container import Predictions, join_members
from calmix.predictions.inference import predict
from calmix.predictions.pooling import pool
from calmix.predictions.stored import Values, iter_predictions, load_predictions, save_predictions

__all__ = [
    "NumpyArray",
    "Predictions",
    "Values",
    "iter_predictions",
    "join_members",
    "load_predictions",
    "pool",
    "predict",
    "refuse_probs",
    "save_predictions",
]
