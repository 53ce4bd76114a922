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


def assert_equals_one_shot(scores, probs, labels, num_bins=15):
    for name in SCALARS:
        options = {"num_bins": num_bins} if name in ("ece", "sce") else {}
        expected = getattr(metrics, name)(probs, labels, **options)
        assert getattr(scores, name) == pytest.approx(expected, abs=1e-12), name
    np.testing.assert_allclose(scores.class_gap, metrics.class_gap(probs, labels), atol=1e-12)
    expected = metrics.reliability(probs, labels, num_bins=num_bins)
    for name in ("edges", "count", "accuracy", "confidence", "gap"):
        np.testing.assert_allclose(getattr(scores.reliability, name), getattr(expected, name), atol=1e-12)
    assert scores.examples == len(labels)


@settings(max_examples=50)
@given(predictions(), st.integers(1, 9), st.sampled_from([1, 15]))
def test_batches_and_merged_accumulators_equal_the_one_shot_functions(sample, size, num_bins):
    probs, labels = sample
    classes = probs.shape[1]
    accumulator = Accumulator(classes, num_bins=num_bins)
    parts = [Accumulator(classes, num_bins=num_bins) for _ in range(3)]
    for i, (p, y) in enumerate(zip(probs.split(size), labels.split(size), strict=True)):
        accumulator.update(p, y)
        parts[i % 3].update(p.numpy(), y.numpy())
    assert_equals_one_shot(accumulator.compute(), probs, labels, num_bins)
    assert_equals_one_shot(parts[2].merge(parts[1]).merge(parts[0]).compute(), probs, labels, num_bins)


def test_many_examples():
    probs, labels = calibrated(50_000, temperature=0.7)
    accumulator = Accumulator(10)
    for p, y in zip(probs.split(777), labels.split(777), strict=True):
        accumulator.update(p, y)
    assert_equals_one_shot(accumulator.compute(), probs, labels)


def test_invalid_batch_changes_nothing():
    probs, labels = calibrated(60_000, 3)
    accumulator = Accumulator(3)
    accumulator.update(probs[:10], labels[:10])
    invalid = probs.clone()
    invalid[-1, 0] = math.nan  # in the last of several blocks
    with pytest.raises(InputError, match="nan"):
        accumulator.update(invalid, labels)
    assert_equals_one_shot(accumulator.compute(), probs[:10], labels[:10])


def test_merge_does_not_change_the_other():
    (p, y), (q, z) = calibrated(20, 3), calibrated(30, 3, seed=1)
    one, other = Accumulator(3), Accumulator(3)
    one.update(p, y)
    other.update(q, z)
    one.merge(other)
    one.update(p, y)
    assert_equals_one_shot(other.compute(), q, z)
    assert_equals_one_shot(one.compute(), torch.cat([p, q, p]), torch.cat([y, z, y]))


def test_copies_are_independent():
    probs, labels = calibrated(20, 3)
    accumulator = Accumulator(3)
    accumulator.update(probs, labels)
    for other in (copy.deepcopy(accumulator), pickle.loads(pickle.dumps(accumulator)), accumulator.reduce()):
        scores = other.compute()
        other.update(probs, labels)
        assert_equals_one_shot(scores, probs, labels)
        assert_equals_one_shot(accumulator.compute(), probs, labels)


def test_reduce_adds_processes(monkeypatch):
    (p, y), (q, z) = calibrated(20, 3), calibrated(30, 3, seed=1)
    one, other = Accumulator(3), Accumulator(3)
    one.update(p, y)
    other.update(q, z)

    def gather(parts, own):
        parts[:] = [pickle.loads(pickle.dumps(part)) for part in (other, own)]

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    assert_equals_one_shot(one.reduce().compute(), torch.cat([p, q]), torch.cat([y, z]))
    assert_equals_one_shot(one.compute(), p, y)


def test_reduce_of_one_process():
    probs, labels = calibrated(20, 3)
    accumulator = Accumulator(3)
    accumulator.update(probs, labels)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert_equals_one_shot(accumulator.reduce().compute(), probs, labels)
    finally:
        torch.distributed.destroy_process_group()


def test_mismatches_raise():
    accumulator = Accumulator(3)
    with pytest.raises(InputError, match="has no examples"):
        accumulator.compute()
    with pytest.raises(InputError, match="probs has 4 classes, the accumulator 3"):
        accumulator.update(*calibrated(5, 4))
    with pytest.raises(InputError, match="3 classes and 10 bins"):
        accumulator.merge(Accumulator(3, num_bins=10))
    with pytest.raises(InputError, match="num_classes is 0"):
        Accumulator(0)
