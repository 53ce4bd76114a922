import numpy as np
import pytest
import torch

from calmix import metrics
from calmix.paper import estimates
from calmix.paper.estimates import (
    RESAMPLES,
    Estimate,
    Estimates,
    accuracy_draws,
    at_temperature,
    dce_draws,
    ece_draws,
    gap_draws,
    kernel_draws,
    resamples,
)
from calmix.paper.study import NotRunError, Study
from calmix.predictions import Predictions
from tests.paper.fabricate import fabricate


@pytest.fixture
def sample():
    draw = torch.Generator().manual_seed(0)
    probs = (2 * torch.randn(500, 5, generator=draw)).softmax(-1)
    return probs, torch.randint(5, (500,), generator=draw)


def test_a_resample_draws_as_many_as_there_are():
    counts = resamples(40)
    assert counts.shape == (40, 1 + RESAMPLES)
    assert bool((counts.sum(0) == 40).all())
    assert bool((counts[:, 0] == 1).all())
    assert float(counts[:, 1:].var(unbiased=False)) == pytest.approx(39 / 40, rel=0.05)


def test_the_samples_own_numbers_are_the_metrics(sample):
    counts = resamples(500)
    for draws, metric in (
        (accuracy_draws, metrics.accuracy),
        (ece_draws, metrics.ece),
        (gap_draws, metrics.gap),
        (dce_draws, metrics.dce),
    ):
        assert draws(*sample, counts)[0] == pytest.approx(100 * metric(*sample), abs=1e-4)


def test_a_resample_is_the_metric_of_its_rows(sample):
    counts = resamples(500)
    rows = torch.arange(500).repeat_interleave(counts[:, 7].long())
    for draws, metric in ((accuracy_draws, metrics.accuracy), (ece_draws, metrics.ece)):
        expected = 100 * metric(sample[0][rows], sample[1][rows])
        assert draws(*sample, counts)[1][6] == pytest.approx(expected, abs=1e-4)


def test_the_interval_of_an_accuracy_is_that_of_a_proportion():
    probs = torch.tensor([[0.9, 0.1]]).expand(1000, 2)
    labels = (torch.arange(1000) >= 800).long()
    value, drawn = accuracy_draws(probs, labels, resamples(1000))
    low, high = Estimate((0,), np.array([value]), drawn[None]).interval
    half = 1.96 * 100 * (0.8 * 0.2 / 1000) ** 0.5
    assert (low, high) == (pytest.approx(80 - half, abs=0.3), pytest.approx(80 + half, abs=0.3))


def test_a_temperature_divides_the_logits(sample):
    logits = sample[0].log()
    assert torch.allclose(at_temperature(sample[0], 2.0), (logits / 2).softmax(-1), atol=1e-6)


def test_what_both_methods_share_is_no_noise(tmp_path):
    """Both are right on the same 80 %, one on ten images more: unpaired, ten of 2,000 would be undecided."""
    runs = [fabricate(tmp_path, "deep", a, accuracy=p) for a, p in (("none", 0.8), ("mixup", 0.805))]
    s = Estimates(Study.of(runs, "cifar10"))
    difference = s.accuracy("deep", "mixup") - s.accuracy("deep", "none")
    assert difference.value == pytest.approx(0.5)
    assert difference.interval[0] > 0.2
    same = s.ece("deep", "none") - s.ece("deep", "none")
    assert same.interval == (0, 0)


def test_seeds_add_their_spread():
    drawn = np.zeros((3, RESAMPLES))
    estimate = Estimate((0, 1, 2), np.array([1.0, 2.0, 3.0]), drawn)
    half = 4.302653 / 3**0.5  # the t quantile of two degrees of freedom, a deviation of 1
    assert estimate.interval == (pytest.approx(2 - half, abs=1e-5), pytest.approx(2 + half, abs=1e-5))
    assert str(estimate) == "+2.00 [-0.48, +4.48] over 3 seeds"


def test_only_common_seeds_are_compared(tmp_path):
    runs = [fabricate(tmp_path, "deep", "none", seed=s, accuracy=0.8) for s in (0, 1)]
    runs += [fabricate(tmp_path, "deep", "mixup", seed=s, accuracy=0.9) for s in (1, 2)]
    s = Estimates(Study.of(runs, "cifar10"))
    difference = s.accuracy("deep", "mixup") - s.accuracy("deep", "none")
    assert (difference.seeds, difference.value) == ((1,), pytest.approx(10))


def test_corrupted_numbers_are_means_over_types_and_severities(tmp_path):
    run = fabricate(tmp_path, "batch", "none", corrupted=(0.5, 0.9))
    s = Estimates(Study.of([run], "cifar10"))
    assert s.ca("batch", "none").value == pytest.approx(50)
    assert s.cece("batch", "none").value == pytest.approx(40, abs=1e-3)
    s = Estimates(Study.of([fabricate(tmp_path / "clean", "batch", "none")], "cifar10"))
    with pytest.raises(NotRunError, match="under corruption"):
        s.ca("batch", "none")


def test_the_kernel_errors_first_order_spread_is_that_of_fresh_samples(monkeypatch):
    draw = torch.Generator().manual_seed(0)

    def fresh():
        logits = 2 * torch.randn(200, 3, generator=draw)
        labels = (logits / 2).softmax(-1).multinomial(1, generator=draw)[:, 0]  # half as sure as it says
        return Predictions(logits[None], labels)

    samples = [fresh() for _ in range(100)]
    errors = [100 * metrics.skce(s.logits[0].softmax(-1), s.labels) for s in samples]
    monkeypatch.setattr(estimates, "predictions", lambda result, what: samples[0])
    value, drawn = kernel_draws(None)
    assert value == pytest.approx(errors[0])
    assert drawn.shape == (RESAMPLES,)
    assert drawn.std() == pytest.approx(np.std(errors), rel=0.35)


def test_an_estimate_is_sure_of_its_sign_or_not():
    around = np.linspace(-1, 1, RESAMPLES)[None]
    for value, sign in ((2.0, 1), (-2.0, -1), (0.5, 0)):
        assert Estimate((0,), np.array([value]), value + around).sign == sign
