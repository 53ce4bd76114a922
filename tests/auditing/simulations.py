"""Predictions whose calibration is known, because their labels are drawn from known probabilities."""

import torch

from calmix.predictions import Predictions


def _draw(*path):
    from calmix.seeds import generator

    return generator(0, "simulations", *path)


def calibrated_pool(n, classes, seed, *, members=4, positives=None, sharpness=2.0):
    """Members that disagree; labels are drawn from their pool. `positives` is about P(y = 1)."""
    draw = _draw("pool", n, classes, seed)
    shared = sharpness * torch.randn(n, classes, generator=draw, dtype=torch.float64)
    if positives is not None:
        shared[:, 1] -= 1.55 * torch.tensor(1 / positives - 1).log()
    logits = shared + 0.5 * torch.randn(members, n, classes, generator=draw, dtype=torch.float64)
    labels = logits.softmax(-1).mean(0).multinomial(1, generator=draw)[:, 0]
    return Predictions(logits, labels)


def with_accuracy(confidence, accuracy, classes, draw):
    """One model with these confidences (N,), right with these probabilities (N,); the top class is random."""
    n = len(confidence)
    top = torch.randint(classes, (n,), generator=draw)
    rest = ((1 - confidence) / (classes - 1))[:, None].expand(n, classes).clone()
    probs = rest.scatter(1, top[:, None], confidence[:, None])
    other = (top + torch.randint(1, classes, (n,), generator=draw)) % classes
    labels = torch.where(torch.rand(n, generator=draw) < accuracy, top, other)
    return Predictions.from_probs(probs / probs.sum(1, keepdim=True), labels)


def with_gap(n, gap, seed, *, classes=10):
    """Confidences between 0.55 and 0.9, accuracy off by `gap` at every one."""
    draw = _draw("gap", n, str(gap), seed)
    confidence = 0.55 + 0.35 * torch.rand(n, generator=draw, dtype=torch.float64)
    return with_accuracy(confidence, confidence + gap, classes, draw)


def gap_variance(gap):
    """Of hit - confidence in `with_gap`: the mean of accuracy (1 - accuracy)."""
    accuracy = torch.linspace(0.55 + gap, 0.9 + gap, 1001)
    return float((accuracy * (1 - accuracy)).mean())


def cancelling(n, error, seed, *, classes=10):
    """Under-confident below a confidence of 0.75, over-confident above, by `error` points."""
    draw = _draw("cancelling", n, seed)
    confidence = 0.55 + 0.4 * torch.rand(n, generator=draw, dtype=torch.float64)
    accuracy = confidence + torch.where(confidence < 0.75, error, -error)
    return with_accuracy(confidence, accuracy, classes, draw)


def shifted(n, shift, seed):
    """Two classes: p ~ U(0.1, 0.9), the truth is p + shift."""
    draw = _draw("shift", n, seed)
    p = 0.1 + 0.8 * torch.rand(n, generator=draw, dtype=torch.float64)
    labels = (torch.rand(n, generator=draw, dtype=torch.float64) < p + shift).long()
    return Predictions.from_probs(p, labels)


def scaled_logits(n, classes, temperature, seed, *, members=1, positives=None):
    """A calibrated pool whose logits are divided by a temperature: below 1 is over-confident."""
    predictions = calibrated_pool(n, classes, seed, members=members, positives=positives)
    return Predictions(predictions.logits / temperature, predictions.labels)
