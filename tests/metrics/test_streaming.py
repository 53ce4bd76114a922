import copy
import math
import pickle

import numpy as np
import pytest
import torch
import torch.distributed
from hypothesis import given, settings
from hypothesis import strategies as st

from calmix import metrics
from calmix.errors import InputError
from calmix.metrics import Accumulator
from tests.metrics.samples import calibrated, predictions

SCALARS = ["accuracy", "gap", "nll", "brier", "ece", "sce"]


def assert_same(found, probs, labels, num_bins=15):
    for name in SCALARS:
        options = {"num_bins": num_bins} if name in ("ece", "sce") else {}
        expected = getattr(metrics, name)(probs, labels, **options)
        assert getattr(found, name) == pytest.approx(expected, abs=1e-12), name
    np.testing.assert_allclose(found.class_gap, metrics.class_gap(probs, labels), atol=1e-12)
    expected = metrics.reliability(probs, labels, num_bins=num_bins)
    for name in ("edges", "count", "accuracy", "confidence", "gap"):
        np.testing.assert_allclose(getattr(found.reliability, name), getattr(expected, name), atol=1e-12)
    assert found.examples == len(labels)


@settings(deadline=None, max_examples=50)
@given(predictions(), st.integers(1, 9), st.sampled_from([1, 15]))
def test_batches_and_merged_parts_equal_the_whole(sample, size, num_bins):
    probs, labels = sample
    classes = probs.shape[1]
    seen = Accumulator(classes, num_bins=num_bins)
    parts = [Accumulator(classes, num_bins=num_bins) for _ in range(3)]
    for i, (p, y) in enumerate(zip(probs.split(size), labels.split(size), strict=True)):
        seen.update(p, y)
        parts[i % 3].update(p.numpy(), y.numpy())
    assert_same(seen.compute(), probs, labels, num_bins)
    assert_same(parts[2].merge(parts[1]).merge(parts[0]).compute(), probs, labels, num_bins)


def test_many_examples():
    probs, labels = calibrated(50_000, temperature=0.7)
    seen = Accumulator(10)
    for p, y in zip(probs.split(777), labels.split(777), strict=True):
        seen.update(p, y)
    assert_same(seen.compute(), probs, labels)


def test_a_refused_batch_leaves_no_trace():
    probs, labels = calibrated(60_000, 3)
    seen = Accumulator(3)
    seen.update(probs[:10], labels[:10])
    worse = probs.clone()
    worse[-1, 0] = math.nan  # in the last of several blocks
    with pytest.raises(InputError, match="nan"):
        seen.update(worse, labels)
    assert_same(seen.compute(), probs[:10], labels[:10])


def test_merging_leaves_the_other_as_it_was():
    (p, y), (q, z) = calibrated(20, 3), calibrated(30, 3, seed=1)
    one, other = Accumulator(3), Accumulator(3)
    one.update(p, y)
    other.update(q, z)
    one.merge(other)
    one.update(p, y)
    assert_same(other.compute(), q, z)
    assert_same(one.compute(), torch.cat([p, q, p]), torch.cat([y, z, y]))


def test_it_can_be_copied_and_sent():
    probs, labels = calibrated(20, 3)
    seen = Accumulator(3)
    seen.update(probs, labels)
    for other in (copy.deepcopy(seen), pickle.loads(pickle.dumps(seen)), seen.reduce()):
        seen_too = other.compute()
        other.update(probs, labels)
        assert_same(seen_too, probs, labels)
        assert_same(seen.compute(), probs, labels)


def test_processes_add_up(monkeypatch):
    (p, y), (q, z) = calibrated(20, 3), calibrated(30, 3, seed=1)
    one, other = Accumulator(3), Accumulator(3)
    one.update(p, y)
    other.update(q, z)

    def gather(parts, mine):
        parts[:] = [pickle.loads(pickle.dumps(part)) for part in (other, mine)]

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    assert_same(one.reduce().compute(), torch.cat([p, q]), torch.cat([y, z]))
    assert_same(one.compute(), p, y)


def test_a_group_of_one_process():
    probs, labels = calibrated(20, 3)
    seen = Accumulator(3)
    seen.update(probs, labels)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert_same(seen.reduce().compute(), probs, labels)
    finally:
        torch.distributed.destroy_process_group()


def test_what_does_not_fit_is_refused():
    seen = Accumulator(3)
    with pytest.raises(InputError, match="seen no example"):
        seen.compute()
    with pytest.raises(InputError, match="probs have 4 classes, and the accumulator 3"):
        seen.update(*calibrated(5, 4))
    with pytest.raises(InputError, match="3 classes in 10 bins"):
        seen.merge(Accumulator(3, num_bins=10))
    with pytest.raises(InputError, match="num_classes is 0"):
        Accumulator(0)
