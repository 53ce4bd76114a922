import numpy as np
import torch

from calmix import metrics
from calmix.audit.estimate import gap_estimate, gap_intervals, top_label
from calmix.audit.groups import group_gaps


def draws(groups, size, seed=0):
    """Calibrated examples: each is right with the probability that is its confidence."""
    draw = torch.Generator().manual_seed(seed)
    confidence = 0.5 + 0.5 * torch.rand(groups * size, generator=draw, dtype=torch.float64)
    hit = torch.bernoulli(confidence, generator=draw)
    return confidence, hit, torch.arange(groups).repeat_interleave(size)


def test_the_gap_by_hand():
    estimate = gap_estimate(torch.tensor([0.9, 0.7]).double(), torch.tensor([1.0, 0.0]).double(), level=0.95)
    np.testing.assert_allclose(estimate.value, 0.5 - 0.8)
    assert -1 <= estimate.low < estimate.value < estimate.high <= 1


def test_many_examples_have_the_plain_normal_interval():
    confidence, hit, _ = draws(1, 100_000)
    found = gap_estimate(confidence, hit, level=0.95)
    half = 1.959964 * float((hit - confidence).std()) / 100_000**0.5
    np.testing.assert_allclose([found.low, found.high], [found.value - half, found.value + half], atol=3e-5)


def test_it_agrees_with_the_bootstrap():
    confidence, hit, _ = draws(1, 4000)
    probs = torch.stack([confidence, 1 - confidence], 1)
    labels = 1 - hit.long()
    found = gap_estimate(*top_label(probs, labels), level=0.9)
    reference = metrics.bootstrap(metrics.gap, probs, labels, resamples=4000, level=0.9)
    np.testing.assert_allclose(found.value, reference.value, atol=1e-12)
    np.testing.assert_allclose([found.low, found.high], [reference.low, reference.high], atol=8e-4)


def test_intervals_hold_the_truth_as_often_as_they_say():
    for size in (20, 300):
        confidence, hit, group = draws(4000, size)
        _, low, high = gap_intervals(confidence, hit, group, 4000, level=0.95)
        covered = float(((low <= 0) & (high >= 0)).double().mean())
        assert 0.94 <= covered <= 0.985


def test_twenty_right_of_twenty_are_no_proof():
    sure = torch.full((20,), 0.97, dtype=torch.float64)
    found = gap_estimate(sure, torch.ones(20, dtype=torch.float64), level=0.95)
    assert found.low < 0 < found.high
    assert found.low < found.value < found.high


def test_ties_go_to_the_first_class():
    probs = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    confidence, hit = top_label(probs, torch.tensor([0, 1]))
    assert confidence.tolist() == [0.5, 0.5]
    assert hit.tolist() == [1, 0]


def test_groups_come_worst_first_with_their_direction():
    size = 1000
    confidence = torch.full((3 * size,), 0.8, dtype=torch.float64)
    hit = torch.zeros(3 * size, dtype=torch.float64)
    hit[:810] = 1  # 81 %
    hit[size : size + 950] = 1  # 95 %: under-confident by 15 points
    hit[2 * size : 2 * size + 500] = 1  # 50 %: over-confident by 30 points
    group = torch.arange(3).repeat_interleave(size)
    fine, under, over = "fine", "under", "over"
    found = group_gaps(confidence, hit, group, [fine, under, over, "absent"])
    assert [g.name for g in found] == [over, under, fine]
    assert [g.direction for g in found] == ["over-confident", "under-confident", "unclear"]
    np.testing.assert_allclose([g.gap.value for g in found], [-0.3, 0.15, 0.01])
    assert [g.examples for g in found] == [size] * 3
    np.testing.assert_allclose(found[0].accuracy, 0.5)


def test_a_large_gap_of_few_examples_is_not_worse_than_a_sure_one():
    confidence = torch.full((1003,), 0.6, dtype=torch.float64)
    hit = torch.ones(1003, dtype=torch.float64)
    hit[500:1000] = 0
    hit[1000:] = 0
    group = torch.tensor([0] * 1000 + [1] * 3)
    assert [g.name for g in group_gaps(confidence, hit, group, ["many", "few"])] == ["many", "few"]


def test_who_looks_at_many_groups_is_rarely_fooled():
    fooled = 0
    for seed in range(200):
        confidence, hit, group = draws(50, 100, seed=seed)
        fooled += any(g.direction != "unclear" for g in group_gaps(confidence, hit, group, list("x" * 50)))
    assert fooled <= 20  # 10 expected; uncorrected intervals would fool nearly always
