"""The toy's confidence surface: how sure an ensemble is at every point of the plane around the clusters."""

from dataclasses import dataclass

import torch
from torch import Tensor

from calmix import data
from calmix.build import load_splits
from calmix.launch import load_model
from calmix.predictions import pool
from calmix.run_folder import Run

REACH = 5.0  # the clusters' points lie within this square around the origin
SIDE = 101
CONFIDENT = 0.9
CLOSE = 2.0  # standard deviations of the nearest cluster


@dataclass(frozen=True, eq=False)
class Surface:
    """Confidence (SIDE, SIDE), rows from the bottom up, and the distance to the nearest cluster in its
    radii."""

    confidence: Tensor
    distance: Tensor

    @property
    def confident(self) -> float:
        """The share of the whole square where the ensemble is confident."""
        return float((self.confidence > CONFIDENT).float().mean())

    @property
    def confident_far_away(self) -> float:
        """The share of the square away from all clusters where it is confident."""
        return float((self.confidence[self.distance > CLOSE] > CONFIDENT).float().mean())


def surface(run: Run) -> Surface:
    """The surface of a trained run on the clusters."""
    line = torch.linspace(-REACH, REACH, SIDE)
    points = torch.cartesian_prod(line, line).flip(1)
    model = load_model(run, load_splits(run.recipe, None))
    if reseed := getattr(model, "reseed", None):
        reseed(run.recipe.seed)
    with torch.inference_mode():
        confidence = pool(model(points)).amax(1)
    made = data.make_clusters(5)
    distance = (torch.cdist(points, made.centres) / made.radii).amin(1)
    return Surface(confidence.view(SIDE, SIDE), distance.view(SIDE, SIDE))
