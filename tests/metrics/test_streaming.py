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


def members_of(n, members=3, classes=4):
    parts = [calibrated(n, classes, temperature=0.5 + k, seed=k) for k in range(members)]
    return torch.stack([probs for probs, _ in parts]), parts[0][1]


@pytest.mark.parametrize("values", ["probs", "logits"])
def test_members_at_once(values):
    probs, labels = members_of(60)
    accumulator = Accumulator(4, values=values)
    for rows in torch.arange(60).split(25):
        batch = probs[:, rows] if values == "probs" else probs[:, rows].log() + 3
        accumulator.update(batch if rows[0] else batch.numpy(), labels[rows])
    scores = accumulator.compute()
    assert accumulator.members == len(scores.members) == 3
    assert_equals_one_shot(scores, probs.mean(0), labels)
    for member, own in zip(scores.members, probs, strict=True):
        assert_equals_one_shot(member, own, labels)


def test_pixels_and_labels_to_ignore():
    rows, labels = calibrated(120, 3)
    probs = rows.view(4, 5, 6, 3).movedim(-1, 1)
    kept = torch.arange(120) % 5 != 0
    masked = labels.masked_fill(~kept, 255).view(4, 5, 6)
    accumulator = Accumulator(3, ignore_index=255)
    accumulator.update(probs[:1], masked[:1])
    accumulator.update(probs[1:], masked[1:])
    assert_equals_one_shot(accumulator.compute(), rows[kept], labels[kept])
    both = Accumulator(3, values="logits", ignore_index=255)
    both.update(torch.stack([probs, probs]).log(), masked)
    assert_equals_one_shot(both.compute(), rows[kept], labels[kept])
    assert_equals_one_shot(both.compute().members[1], rows[kept], labels[kept])


def test_reset_forgets_and_state_is_restored():
    probs, labels = members_of(60)
    accumulator = Accumulator(4)
    accumulator.update(probs, labels)
    state = copy.deepcopy(accumulator.state_dict())
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    accumulator.reset()
    assert (len(accumulator), accumulator.members) == (0, None)
    accumulator.update(probs[0], labels)  # without a member axis, after the reset
    assert_equals_one_shot(accumulator.compute(), probs[0], labels)
    accumulator.load_state_dict(state)
    accumulator.update(probs, labels)
    assert_equals_one_shot(accumulator.compute(), probs.mean(0).repeat(2, 1), labels.repeat(2))
    assert_equals_one_shot(accumulator.compute().members[2], probs[2].repeat(2, 1), labels.repeat(2))
    before = accumulator.state_dict()
    with pytest.raises(InputError, match=r"state has \(3, 1, 15\) for 'top', .*\(3, 1, 10\)"):
        Accumulator(4, num_bins=10).load_state_dict(state)
    with pytest.raises(InputError, match="not that of an Accumulator"):
        accumulator.load_state_dict({"weight.top": state["top"]})
    assert all(torch.equal(value, before[name]) for name, value in accumulator.state_dict().items())


def test_to_moves_the_sums():
    probs, labels = members_of(20)
    accumulator = Accumulator(4)
    accumulator.update(probs, labels)
    moved = copy.deepcopy(accumulator).to("meta")
    assert {value.device.type for value in moved.state_dict().values()} == {"meta"}
    accumulator.to(torch.device("cpu")).update(probs, labels)
    assert len(accumulator) == 40


def test_merge_and_reduce_keep_members():
    probs, labels = members_of(60)
    one, other, empty = Accumulator(4), Accumulator(4), Accumulator(4)
    one.update(probs[:, :20], labels[:20])
    other.update(probs[:, 20:], labels[20:])
    total = empty.merge(one).merge(other).merge(Accumulator(4)).reduce()
    assert_equals_one_shot(total.compute(), probs.mean(0), labels)
    assert_equals_one_shot(total.compute().members[1], probs[1], labels)
    single = Accumulator(4)
    single.update(probs[0], labels)
    with pytest.raises(InputError, match="other has no members, this accumulator 3"):
        one.merge(single)
    with pytest.raises(InputError, match="earlier batches had 3 members"):
        one.update(probs[0], labels)
    with pytest.raises(InputError, match="earlier batches had 3 members"):
        one.update(probs[:2], labels)
    with pytest.raises(InputError, match="earlier batches had no members"):
        single.update(probs, labels)


def test_an_invalid_member_changes_nothing():
    probs, labels = members_of(20)
    accumulator = Accumulator(4)
    invalid = probs.clone()
    invalid[2, 19] = 0.5
    with pytest.raises(InputError, match="sums to 2"):
        accumulator.update(invalid, labels)
    assert (len(accumulator), accumulator.members) == (0, None)
    with pytest.raises(InputError, match="which is not finite"):
        Accumulator(4, values="logits").update(invalid[0] * math.inf, labels)
    with pytest.raises(InputError, match="values"):
        Accumulator(4, values="scores")
