import functools
import math

import pytest
import torch

from calmix import metrics
from calmix.errors import InputError
from calmix.metrics import bootstrap, kernel, resampling
from tests.metrics import reference
from tests.metrics.samples import METRICS, calibrated

CALLS = [
    *METRICS,
    functools.partial(metrics.ece, num_bins=5),
    functools.partial(metrics.skce, estimator="biased", bandwidth=0.3),
    functools.partial(metrics.skce, estimator="linear"),
]


@pytest.mark.parametrize("metric", CALLS)
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_interval_contains_its_value(metric, temperature):
    for seed in range(3):
        sample = calibrated(300, 4, temperature=temperature, seed=seed)
        interval = bootstrap(metric, *sample, resamples=200)
        assert interval.value == pytest.approx(metric(*sample), abs=1e-12)
        assert interval.low <= interval.value <= interval.high
        assert interval.low < interval.high
        assert interval == bootstrap(metric, *sample, resamples=200)
        assert interval != bootstrap(metric, *sample, resamples=200, seed=1) or interval.resamples == 0


def test_interval_by_hand():
    # Quartiles 2.5 and 3.5, mean 3. Value 1: shifted by the bias 0.5 and 1.5, reflected -1.5 and -0.5.
    # Value 5: shifted 4.5 and 5.5, reflected 6.5 and 7.5.
    below, above = torch.tensor([1.0, 5.0], dtype=torch.float64)
    resampled = torch.linspace(2, 4, 101, dtype=torch.float64)
    interval = resampling._interval(below, resampled, 0.5)
    assert (interval.value, interval.low, interval.high) == pytest.approx((1, -1.5, 1.5))
    interval = resampling._interval(above, resampled, 0.5)
    assert (interval.value, interval.low, interval.high) == pytest.approx((5, 4.5, 7.5))
    assert resampling._interval(below, resampled, 0.5, lambda value: value.clamp(min=0)).low == 0


def weighted(name, probs, labels, drawn):
    """The statistic of a resample from its rows, bins from the full sample."""
    statistic = resampling.STATISTICS[name](resampling.Sample(probs, labels))
    return float(statistic.value(statistic.sum(resampling.Sample(probs[drawn], labels[drawn]).blocks())))


@pytest.mark.parametrize("metric", resampling.STATISTICS)
def test_weights_equal_drawing_rows(metric, monkeypatch):
    probs, labels = calibrated(50, 3, temperature=0.5)
    monkeypatch.setattr(resampling, "ROW_CHUNK", 17)
    weights = torch.cat(list(resampling._weights(4, 50, 17, torch.Generator().manual_seed(0))))
    assert weights.shape == (50, 4)
    sample = resampling.Sample(probs, labels)
    statistic = resampling.STATISTICS[metric](sample)
    (values,) = resampling._resample([statistic], sample, 4, torch.Generator().manual_seed(0))
    for r, value in enumerate(values.tolist()):
        drawn = torch.arange(50).repeat_interleave(weights[:, r].long())
        assert value == pytest.approx(weighted(metric, probs, labels, drawn), abs=1e-12)


def test_interval_is_analytic_at_95_percent_by_default():
    assert metrics.Interval(0.5, 0.4, 0.6) == metrics.Interval(0.5, 0.4, 0.6, resamples=0, level=0.95)


def test_weights_are_multinomial():
    n, resamples = 40, 4000
    weights = torch.cat(list(resampling._weights(resamples, n, 16, torch.Generator().manual_seed(0))))
    assert weights.shape == (n, resamples)
    assert (weights.sum(0) == n).all()
    covariance = torch.cov(weights)
    expected = torch.eye(n, dtype=torch.float64) - 1 / n
    assert (weights.mean(1) - 1).abs().max() < 5 / resamples**0.5
    assert (covariance - expected).abs().max() < 8 / resamples**0.5
    # Beyond two moments: the share of examples left out of a resample.
    assert float((weights == 0).double().mean()) == pytest.approx((1 - 1 / n) ** n, abs=0.005)


@pytest.mark.parametrize(
    ("metric", "temperature"),
    [
        *((metrics.accuracy, 0.5), (metrics.gap, 0.5), (metrics.brier, 0.5), (metrics.nll, 0.5)),
        *((metrics.ece, 0.5), (metrics.dce, 0.5), (metrics.dce, 1.0)),
    ],
)
def test_interval_covers_the_true_value(metric, temperature):
    truth = metric(*calibrated(400_000, 3, temperature=temperature, seed=99))
    if temperature == 1:
        truth = 0.0
    runs = 60
    covered = 0
    for seed in range(runs):
        interval = bootstrap(metric, *calibrated(500, 3, temperature=temperature, seed=seed), resamples=100)
        covered += interval.low <= truth <= interval.high
    assert covered >= 51  # 60 at 95 %: fewer than 51 has probability 0.001


def test_higher_level_is_wider():
    sample = calibrated(200, 3)
    narrow, wide = bootstrap(metrics.gap, *sample, level=0.5), bootstrap(metrics.gap, *sample, level=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high
    # Two thirds of a normal deviate at one half, 2.58 at 0.99.
    assert (wide.high - wide.low) / (narrow.high - narrow.low) == pytest.approx(2.576 / 0.674, rel=0.15)


def test_interval_of_a_mean_has_its_standard_error():
    probs, labels = calibrated(2000, 3)
    each = -probs[torch.arange(2000), labels].log()
    interval = bootstrap(metrics.nll, probs, labels)
    half = 1.96 * float(each.std()) / 2000**0.5
    assert (interval.high - interval.low) / 2 == pytest.approx(half, rel=0.1)


def test_ends_are_in_the_range_of_the_metric():
    probs = torch.tensor([[1.0, 0.0]] * 30)
    labels = torch.tensor([0] * 29 + [1])
    assert bootstrap(metrics.accuracy, probs, labels).high <= 1
    assert bootstrap(metrics.ece, *calibrated(50, 3)).low >= 0
    assert bootstrap(metrics.dce, *calibrated(50, 3)).low >= 0
    assert bootstrap(functools.partial(metrics.dce, squared=True), *calibrated(50, 3)).low < 0


def test_interval_of_an_infinite_value_is_infinite():
    interval = bootstrap(metrics.nll, torch.tensor([[1.0, 0.0]] * 5), torch.tensor([0, 0, 0, 0, 1]))
    assert (interval.value, interval.low, interval.high) == (math.inf, math.inf, math.inf)


def test_bootstrap_each_equals_bootstrap():
    probs, labels = calibrated(300, 3)
    several = [metrics.ece, metrics.skce, functools.partial(metrics.ece, num_bins=7), lambda p, y: 0.5]
    together = metrics.bootstrap_each(several, probs, labels, resamples=140)
    assert together == [bootstrap(metric, probs, labels, resamples=140) for metric in several]
    assert metrics.bootstrap_each([], probs, labels) == []


def test_any_callable_can_be_resampled():
    probs, labels = calibrated(300, 3)

    def fraction_correct(p, y):
        return (p.argmax(1) == y).mean()

    interval = bootstrap(fraction_correct, probs.numpy(), labels.numpy(), resamples=300)
    exact = bootstrap(metrics.accuracy, probs, labels, resamples=300)
    assert interval.value == pytest.approx(exact.value)
    assert (interval.low, interval.high) == pytest.approx((exact.low, exact.high), abs=0.02)
    assert bootstrap(lambda p, y: metrics.ece(p, y), probs, labels, resamples=5).resamples == 5


def test_skce_of_many_examples_is_linear():
    sample = calibrated(5_002, 3)
    interval = bootstrap(functools.partial(metrics.skce, bandwidth=0.3), *sample)
    linear = bootstrap(functools.partial(metrics.skce, bandwidth=0.3, estimator="linear"), *sample)
    assert interval == linear
    assert interval.resamples == 0
    assert interval.value == pytest.approx(metrics.skce(*sample, estimator="linear", bandwidth=0.3))
    assert interval.low < 0 < interval.high


@pytest.mark.parametrize("biased", [False, True])
def test_skce_resamples_are_means_over_pairs(biased, monkeypatch):
    monkeypatch.setattr(kernel, "PAIR_BLOCK", 3)
    probs, labels = calibrated(8, 3, temperature=0.5)
    weights = next(resampling._weights(5, 8, 8, torch.Generator().manual_seed(0)))
    values = resampling._resample_pairs(resampling.Sample(probs, labels).whole(), 0.3, weights, biased)
    for r in range(5):
        drawn = torch.arange(8).repeat_interleave(weights[:, r].long()).tolist()
        terms = [
            # h of a pair: the mean over the pairs of a sample of two
            reference.skce(probs[[i, j]], labels[[i, j]], "unbiased", 0.3)
            for i in drawn
            for j in drawn
            if biased or i != j
        ]
        assert float(values[r]) == pytest.approx(sum(terms) / len(terms), abs=1e-12)


def test_very_large_samples_have_fewer_resamples(monkeypatch):
    monkeypatch.setattr(resampling, "MAX_DRAWS", 25_000)
    sample = calibrated(100, 3)
    assert bootstrap(metrics.ece, *sample).resamples == 250
    assert bootstrap(metrics.ece, *calibrated(1000, 3)).resamples == 200
    assert bootstrap(metrics.ece, *sample, resamples=20).resamples == 20


def test_interval_of_one_example():
    interval = bootstrap(metrics.ece, torch.tensor([[0.75, 0.25]]), torch.tensor([0]))
    assert (interval.low, interval.value, interval.high) == (0.25, 0.25, 0.25)


def test_bad_options_raise():
    sample = calibrated(10, 3)
    with pytest.raises(InputError, match=r"level is 95"):
        bootstrap(metrics.ece, *sample, level=95)
    with pytest.raises(InputError, match="resamples is 1"):
        bootstrap(metrics.ece, *sample, resamples=1)
    with pytest.raises(InputError, match="num_bins is 0"):
        bootstrap(functools.partial(metrics.ece, num_bins=0), *sample)


@pytest.mark.parametrize("resamples", [10**12, 2**70])
def test_absurd_numbers_of_resamples_are_refused(resamples):
    probs, labels = torch.eye(2), torch.tensor([0, 1])
    for judge in (bootstrap, metrics.null):
        with pytest.raises(InputError, match=f"resamples is {resamples:,}: it must be at most 1,000,000"):
            judge(metrics.ece, probs, labels, resamples=resamples)
