"""The paper's toy data: five Gaussian clusters in the plane with different radii."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from calmix.data.dataset import DataSet, Part
from calmix.errors import InputError
from calmix.seeds import generator

DISTANCE = 3.0  # of the centres from the origin
RADII = (0.2, 0.35, 0.5, 0.65, 0.8)


@dataclass(frozen=True, eq=False)
class Clusters:
    """Points float32 `(N, 2)` and labels `(N,)`, drawn around `centres` `(5, 2)` with `radii` `(5,)`."""

    points: Tensor
    labels: Tensor
    centres: Tensor
    radii: Tensor


def make_clusters(size: int = 1000, *, seed: int = 0) -> Clusters:
    """`size` points in equal numbers from five isotropic Gaussians, whose standard deviation is the radius.

    The centres are on a circle, the first at the top; the two widest clusters overlap, so that even the best
    classifier makes a few errors.

    >>> clusters = make_clusters(50)
    >>> clusters.points.shape, clusters.labels.bincount()
    (torch.Size([50, 2]), tensor([10, 10, 10, 10, 10]))
    """
    if size < 1 or size % len(RADII):
        raise InputError(f"size must be a positive multiple of the {len(RADII)} clusters, got {size}")
    angles = math.pi / 2 + 2 * math.pi / len(RADII) * torch.arange(len(RADII))
    centres = DISTANCE * torch.stack([angles.cos(), angles.sin()], dim=1)
    radii = torch.tensor(RADII)
    labels = torch.arange(len(RADII)).repeat_interleave(size // len(RADII))
    noise = torch.randn(size, 2, generator=generator(seed, "clusters"))
    return Clusters(centres[labels] + radii[labels, None] * noise, labels, centres, radii)


def load_clusters() -> DataSet:
    """1,000 points for training (seed 0) and 1,000 for testing (seed 1)."""
    train, test = make_clusters(seed=0), make_clusters(seed=1)
    names = tuple(f"radius {radius}" for radius in RADII)
    return DataSet("clusters", names, Part(train.points, train.labels), Part(test.points, test.labels))
