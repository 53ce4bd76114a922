"""All scalar metrics, and predictions to test them: ties, exact 0 and 1, values on edges of bins, random."""

import functools

import numpy as np
import torch
from hypothesis import strategies as st

from calmix import metrics

METRICS = [
    *metrics.SCALARS.values(),
    *(functools.partial(metric, classwise=True) for metric in (metrics.ace, metrics.dce)),
]


def softmax_of_noise(draw, classes):
    logits = 3 * draw.standard_normal(classes)
    p = np.exp(logits - logits.max())
    return p / p.sum()


def certain(draw, classes):
    return np.eye(classes)[draw.integers(classes)]


def uniform(draw, classes):
    return np.full(classes, 1 / classes)


def on_edge(draw, classes):
    """m/15 and 1 - m/15 in two classes, in either order."""
    p = np.zeros(classes)
    first, second = draw.permutation(classes)[:2]
    p[first] = draw.integers(16) / 15
    p[second] = 1 - p[first]
    return p


def tied(draw, classes):
    """Several classes share the largest probability."""
    p = np.zeros(classes)
    p[draw.permutation(classes)[: draw.integers(2, classes + 1)]] = 1
    return p / p.sum()


KINDS = [softmax_of_noise, certain, uniform, on_edge, tied]


@st.composite
def predictions(draw, max_size=30):
    """(probs, labels) as tensors; probs float32 or float64."""
    classes = draw(st.sampled_from([2, 3, 4, 10]))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=max_size))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    probs = np.stack([kind(random, classes) for kind in kinds])
    repeated = random.integers(len(probs), size=len(probs)) if draw(st.booleans()) else slice(None)
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    return torch.from_numpy(probs[repeated]).to(dtype), torch.from_numpy(
        random.integers(classes, size=len(probs))
    )


def calibrated(n, classes=10, *, scale=2.0, temperature=1.0, seed=0):
    """Labels drawn from softmax(logits), probabilities softmax(logits / temperature): calibrated at 1."""
    draw = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, classes, generator=draw, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=draw)[:, 0]
    return (logits / temperature).softmax(1), labels
