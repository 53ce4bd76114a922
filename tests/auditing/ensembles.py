"""Ensembles whose calibration is known, because their labels are drawn from what a member may know.

Each member sees a signal of its own, the label's corner plus unit noise, and computes the exact posterior:
alone it is calibrated. A pool of several is right more often than any of them and yet no surer:
under-confident by pooling.
"""

import dataclasses

import torch

from calmix.predictions import Predictions


def signals(*, members=4, examples=3000, classes=4, strength=1.5, seed=0):
    """Logits (M, N, C) of calibrated members with independent signals."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (examples,), generator=draw)
    corners = torch.eye(classes)[labels] * strength
    noise = torch.randn(members, examples, classes, generator=draw)
    return Predictions(strength * (corners + noise), labels)


def single(*, sharpness=1.0, examples=3000, seed=0):
    """One model; sharpness 1 is calibrated, more is over-confident."""
    predictions = signals(members=1, examples=examples, seed=seed)
    return Predictions(sharpness * predictions.logits, predictions.labels)


def scaled(predictions, factor):
    return dataclasses.replace(predictions, logits=factor * predictions.logits)


def calibrated_groups(groups, size, seed=0):
    """Calibrated examples: each is right with the probability that is its confidence."""
    draw = torch.Generator().manual_seed(seed)
    confidence = 0.5 + 0.5 * torch.rand(groups * size, generator=draw, dtype=torch.float64)
    hit = torch.bernoulli(confidence, generator=draw)
    return confidence, hit, torch.arange(groups).repeat_interleave(size)
