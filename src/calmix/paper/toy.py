"""The toy: confidence of an ensemble at every point of the plane around the clusters."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from calmix import data
from calmix.data.clusters import DISTANCE
from calmix.predictions import pool
from calmix.report.style import BLACK, colour, figure, styled
from calmix.runs.folder import Run
from calmix.study.evidence import Arrays, read_evidence

REACH = 5.0  # the clusters' points lie within this square around the origin
SIDE = 101
CONFIDENT = 0.9
NEAR = 1.0  # radii of the nearest cluster
INSIDE = DISTANCE / 2  # the disc inside the ring of clusters


@dataclass(frozen=True, eq=False)
class Surface:
    """Confidence of the pool (SIDE, SIDE), rows from the bottom up, the mean confidence of its `members`, and
    which points are `near` a cluster or `inside` the ring of clusters."""

    confidence: Tensor
    members: Tensor
    near: Tensor
    inside: Tensor


@functools.lru_cache(maxsize=64)
def surface(run: Run) -> Surface:
    """The surface of a run on the clusters, from its weights or from evidence."""
    line = torch.linspace(-REACH, REACH, SIDE)
    points = torch.cartesian_prod(line, line).flip(1)
    evidence = read_evidence(run.folder)
    kept = None if evidence is None else evidence.get("surface")
    if kept is not None and kept.ndim == 3:  # older evidence has the pool alone
        confidence, members = torch.from_numpy(kept.astype(np.float32)).flatten(1)
    else:
        model = run.model()
        if reseed := getattr(model, "reseed", None):
            reseed(run.recipe.seed)
        with torch.inference_mode():
            logits = model(points)
            confidence, members = pool(logits).amax(1), logits.softmax(-1).amax(-1).mean(0)
    clusters = data.make_clusters(5)
    distance = (torch.cdist(points, clusters.centres) / clusters.radii).amin(1)
    near, inside = distance < NEAR, points.norm(dim=1) < INSIDE
    return Surface(*(values.view(SIDE, SIDE) for values in (confidence, members, near, inside)))


def surface_evidence(run: Run) -> Arrays:
    """The surfaces of the pool and of its members as an array to be kept."""
    kept = surface(run)
    return {"surface": torch.stack([kept.confidence, kept.members]).numpy().astype(np.float16)}


def surfaces_sentence(surfaces: Mapping[str, Sequence[Surface]]) -> str:
    """Mean confidence of members and pool, all over the plane and inside the ring, over all seeds."""

    def means(some: Sequence[Surface], mask: bool) -> str:
        pairs = [
            (s.members[s.inside], s.confidence[s.inside]) if mask else (s.members, s.confidence) for s in some
        ]
        members, pool = np.mean([[float(a.mean()), float(b.mean())] for a, b in pairs], axis=0)
        return f"{100 * members:.1f} / {100 * pool:.1f}"

    parts = [
        f"{means(some, False)} over the plane and {means(some, True)} inside the ring with {name}"
        for name, some in surfaces.items()
    ]
    return f"Mean confidence % of the members / of their pool: {'; '.join(parts)}." if parts else ""


def surfaces_figure(surfaces: Mapping[str, Surface], *, title: str) -> Figure:
    """The clusters, and beside them each method's confidence all over the plane, on one scale."""
    with styled():
        drawing, axes = figure(2.35 * (1 + len(surfaces)) + 0.6, 2.9, columns=1 + len(surfaces))
        clusters = data.make_clusters(500)
        shades = [colour("", k) for k in range(len(clusters.radii))]
        x, y = clusters.points.T.numpy()
        axes[0].scatter(x, y, s=4, c=[shades[k] for k in clusters.labels], linewidths=0)
        axes[0].set_title("data", loc="left")
        image = None
        for panel, (name, drawn) in zip(axes[1:], surfaces.items(), strict=True):
            panel.set_title(name, loc="left")
            look: Any = {"cmap": "cividis", "interpolation": "bilinear", "vmin": 1 / len(clusters.radii)}
            extent = (-REACH, REACH, -REACH, REACH)
            image = panel.imshow(drawn.confidence.numpy(), origin="lower", extent=extent, vmax=1, **look)
            panel.scatter(x[::5], y[::5], s=1.5, c=BLACK, alpha=0.6, linewidths=0)
        for panel in axes:
            panel.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xticks=[], yticks=[], aspect="equal")
            panel.grid(visible=False)
            panel.spines[["top", "right"]].set_visible(True)
        if image is not None:
            drawing.colorbar(image, ax=axes, label="confidence", shrink=0.9)
        drawing.suptitle(title, fontsize=10)
    return drawing
