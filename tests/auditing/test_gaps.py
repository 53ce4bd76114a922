import math

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from calmix import metrics
from calmix.auditing.gaps import (
    examples_for_half_width,
    gap_interval,
    gap_intervals,
    gap_sums,
    mean_interval,
    rate_interval,
)
from calmix.auditing.summary import GapSums
from tests.auditing.ensembles import calibrated_groups


def doubles(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_the_gap_by_hand():
    interval = gap_interval(gap_sums(doubles(0.9, 0.7), doubles(1, 0)), level=0.95)
    np.testing.assert_allclose(interval.value, 0.5 - 0.8)
    assert -1 <= interval.low < interval.value < interval.high <= 1
    assert interval.level == 0.95


def test_many_examples_have_the_plain_normal_interval():
    confidence, hit, _ = calibrated_groups(1, 100_000)
    interval = gap_interval(gap_sums(confidence, hit), level=0.95)
    half = 1.959964 * float((hit - confidence).std()) / 100_000**0.5
    np.testing.assert_allclose(
        [interval.low, interval.high], [interval.value - half, interval.value + half], atol=3e-5
    )


def test_it_agrees_with_the_bootstrap():
    confidence, hit, _ = calibrated_groups(1, 4000)
    interval = gap_interval(gap_sums(confidence, hit), level=0.9)
    reference = metrics.bootstrap(metrics.gap, confidence, hit.long(), resamples=1500, level=0.9)
    np.testing.assert_allclose(interval.value, reference.value, atol=1e-12)
    np.testing.assert_allclose([interval.low, interval.high], [reference.low, reference.high], atol=1.2e-3)


def test_gaps_contain_the_truth_as_often_as_they_say():
    for size in (20, 300):
        confidence, hit, group = calibrated_groups(4000, size)
        _, low, high = gap_intervals(gap_sums(confidence, hit, group, 4000), level=0.95)
        covered = float(((low <= 0) & (high >= 0)).double().mean())
        assert 0.94 <= covered <= 0.985


def test_twenty_right_of_twenty_are_no_proof():
    interval = gap_interval(gap_sums(torch.full((20,), 0.97).double(), torch.ones(20).double()), level=0.95)
    assert interval.low < 0 < interval.value < interval.high


def test_the_number_of_examples_that_would_do():
    confidence, hit, _ = calibrated_groups(1, 2000)
    sums = gap_sums(confidence, hit)
    needed = examples_for_half_width(sums, 0.01, level=0.97)
    factor = needed / 2000
    more = GapSums(*(part * factor for part in vars(sums).values()))
    interval = gap_interval(more, level=0.97)
    assert (interval.high - interval.low) / 2 == pytest.approx(0.01, rel=0.01)
    both_wrong = gap_sums(doubles(0.67, 0.67), doubles(0, 0))
    assert examples_for_half_width(both_wrong, 0.01, level=0.97) > 1000  # never of zero width


@pytest.mark.parametrize(("successes", "size"), [(0, 10), (3, 10), (99, 100), (50, 50)])
def test_rates_have_wilsons_interval(successes, size):
    expected = binomtest(successes, size).proportion_ci(0.9, method="wilson")
    interval = rate_interval(successes, size, level=0.9)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_means_of_skewed_losses_are_covered():
    draw = torch.Generator().manual_seed(0)
    samples = torch.empty(1000, 100, dtype=torch.float64).exponential_(generator=draw)
    intervals = [mean_interval(sample, level=0.95) for sample in samples]
    above, below = (
        sum(test) / 1000 for test in zip(*[(i.high < 1, i.low > 1) for i in intervals], strict=True)
    )
    assert above + below == pytest.approx(0.05, abs=0.025)
    assert above < 0.045  # Student's interval alone misses 5 % on this side


def test_means_without_an_interval():
    interval = mean_interval(doubles(1, math.inf), level=0.95)
    assert (interval.value, interval.high) == (math.inf, math.inf)
    assert mean_interval(doubles(2, 2, 2), level=0.95).high == 2
