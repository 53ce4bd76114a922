"""The same values for every kind of array and every block size, and no writes to the input."""

import numpy as np
import pytest
import torch

from calmix import metrics
from calmix.metrics import sample
from tests.metrics.samples import METRICS, calibrated


@pytest.mark.parametrize("metric", METRICS)
def test_value_does_not_depend_on_kind_of_array(metric, tmp_path):
    probs, labels = calibrated(50, 4, temperature=0.5)
    wide, narrow = metric(probs, labels), metric(probs.float(), labels)
    np.save(tmp_path / "probs.npy", probs.numpy())
    same = {
        "numpy": (probs.numpy(), labels.numpy()),
        "mixed": (probs, labels.numpy().astype(np.uint8)),
        "memory-mapped, read-only": (np.load(tmp_path / "probs.npy", mmap_mode="r"), labels.int()),
        "negative stride": (probs.flip(0).numpy()[::-1], labels),
        "big-endian": (probs.numpy().astype(">f8"), labels.numpy().astype(">i4")),
        "column-major": (torch.empty(4, 50, dtype=torch.float64).copy_(probs.T).T, labels.short()),
        "slice": (torch.cat([probs, probs], 1)[:, :4], torch.stack([labels, labels], 1)[:, 0]),
        "with gradient": (probs.clone().requires_grad_(), labels),
    }
    for name, (p, y) in same.items():
        assert metric(p, y) == pytest.approx(wide, abs=1e-14), name
    assert metric(probs.float().numpy(), labels) == narrow
    assert isinstance(wide, float)


@pytest.mark.parametrize("metric", [*METRICS, metrics.reliability, metrics.class_gap])
def test_input_is_not_modified(metric):
    for dtype in (torch.float32, torch.float64):
        probs, labels = calibrated(50, 4)
        probs = probs.to(dtype)
        before = probs.clone(), labels.clone()
        metric(probs, labels)
        metrics.Accumulator(4).update(probs, labels)
        if metric in METRICS:
            metrics.bootstrap(metric, probs, labels, resamples=5)
        assert torch.equal(probs, before[0])
        assert torch.equal(labels, before[1])


@pytest.mark.parametrize("metric", METRICS)
def test_value_does_not_depend_on_block_size(metric, monkeypatch):
    drawn = calibrated(70, 4, temperature=0.5)
    whole = metric(*drawn)
    for block, chunk in ((1, 1), (12, 150), (100, 10_000)):
        monkeypatch.setattr(sample, "BLOCK", block)
        monkeypatch.setattr(sample, "CHUNK", chunk)
        assert metric(*drawn) == pytest.approx(whole, abs=1e-14)
