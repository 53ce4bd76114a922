"""The same numbers from every kind of array and every size of block, and nothing written to the input."""

import functools

import numpy as np
import pytest
import torch

from calmix import metrics
from calmix.metrics import sample
from tests.metrics.samples import calibrated

SCALARS = [
    *(metrics.accuracy, metrics.gap, metrics.nll, metrics.brier, metrics.ece, metrics.ace, metrics.sce),
    *(metrics.tace, metrics.dce, functools.partial(metrics.skce, bandwidth=0.3)),
    *(functools.partial(metrics.ace, classwise=True), functools.partial(metrics.dce, classwise=True)),
]


@pytest.mark.parametrize("metric", SCALARS)
def test_kinds_of_arrays(metric, tmp_path):
    probs, labels = calibrated(50, 4, temperature=0.5)
    wide, narrow = metric(probs, labels), metric(probs.float(), labels)
    np.save(tmp_path / "probs.npy", probs.numpy())
    same = {
        "numpy": (probs.numpy(), labels.numpy()),
        "mixed": (probs, labels.numpy().astype(np.uint8)),
        "mapped, read-only": (np.load(tmp_path / "probs.npy", mmap_mode="r"), labels.int()),
        "backwards": (probs.flip(0).numpy()[::-1], labels),
        "other bytes": (probs.numpy().astype(">f8"), labels.numpy().astype(">i4")),
        "columns first": (torch.empty(4, 50, dtype=torch.float64).copy_(probs.T).T, labels.short()),
        "part of more": (torch.cat([probs, probs], 1)[:, :4], torch.stack([labels, labels], 1)[:, 0]),
        "with gradient": (probs.clone().requires_grad_(), labels),
    }
    for name, (p, y) in same.items():
        assert metric(p, y) == pytest.approx(wide, abs=1e-14), name
    assert metric(probs.float().numpy(), labels) == narrow
    assert isinstance(wide, float)


@pytest.mark.parametrize("metric", [*SCALARS, metrics.reliability, metrics.class_gap])
def test_nothing_is_written_to_the_input(metric):
    for dtype in (torch.float32, torch.float64):
        probs, labels = calibrated(50, 4)
        probs = probs.to(dtype)
        before = probs.clone(), labels.clone()
        metric(probs, labels)
        metrics.Accumulator(4).update(probs, labels)
        if metric in SCALARS:
            metrics.bootstrap(metric, probs, labels, resamples=5)
        assert torch.equal(probs, before[0])
        assert torch.equal(labels, before[1])


@pytest.mark.parametrize("metric", SCALARS)
def test_blocks_do_not_show(metric, monkeypatch):
    drawn = calibrated(70, 4, temperature=0.5)
    whole = metric(*drawn)
    for block, chunk in ((1, 1), (12, 150), (100, 10_000)):
        monkeypatch.setattr(sample, "BLOCK", block)
        monkeypatch.setattr(sample, "CHUNK", chunk)
        assert metric(*drawn) == pytest.approx(whole, abs=1e-14)
