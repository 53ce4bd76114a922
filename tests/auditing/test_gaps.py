import numpy as np
import torch

from calmix import metrics
from calmix.auditing.gaps import gap_interval, gap_intervals, top_label
from tests.auditing.ensembles import calibrated_groups


def test_the_gap_by_hand():
    interval = gap_interval(torch.tensor([0.9, 0.7]).double(), torch.tensor([1.0, 0.0]).double(), level=0.95)
    np.testing.assert_allclose(interval.value, 0.5 - 0.8)
    assert -1 <= interval.low < interval.value < interval.high <= 1
    assert interval.level == 0.95


def test_many_examples_have_the_plain_normal_interval():
    confidence, hit, _ = calibrated_groups(1, 100_000)
    interval = gap_interval(confidence, hit, level=0.95)
    half = 1.959964 * float((hit - confidence).std()) / 100_000**0.5
    np.testing.assert_allclose(
        [interval.low, interval.high], [interval.value - half, interval.value + half], atol=3e-5
    )


def test_it_agrees_with_the_bootstrap():
    confidence, hit, _ = calibrated_groups(1, 4000)
    probs = torch.stack([confidence, 1 - confidence], 1)
    labels = 1 - hit.long()
    interval = gap_interval(*top_label(probs, labels), level=0.9)
    reference = metrics.bootstrap(metrics.gap, probs, labels, resamples=4000, level=0.9)
    np.testing.assert_allclose(interval.value, reference.value, atol=1e-12)
    np.testing.assert_allclose([interval.low, interval.high], [reference.low, reference.high], atol=8e-4)


def test_intervals_contain_the_truth_as_often_as_they_say():
    for size in (20, 300):
        confidence, hit, group = calibrated_groups(4000, size)
        _, low, high = gap_intervals(confidence, hit, group, 4000, level=0.95)
        covered = float(((low <= 0) & (high >= 0)).double().mean())
        assert 0.94 <= covered <= 0.985


def test_twenty_right_of_twenty_are_no_proof():
    sure = torch.full((20,), 0.97, dtype=torch.float64)
    interval = gap_interval(sure, torch.ones(20, dtype=torch.float64), level=0.95)
    assert interval.low < 0 < interval.high
    assert interval.low < interval.value < interval.high


def test_ties_go_to_the_first_class():
    probs = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    confidence, hit = top_label(probs, torch.tensor([0, 1]))
    assert confidence.tolist() == [0.5, 0.5]
    assert hit.tolist() == [1, 0]
