import pytest
import torch
from scipy.stats import beta, binomtest

from calmix import metrics
from calmix.auditing.reliability import reliability_bins
from tests.auditing.ensembles import calibrated_groups


def test_bins_and_their_intervals():
    confidence, hit, _ = calibrated_groups(1, 500)
    bins = reliability_bins(confidence, hit)
    diagram = metrics.reliability(confidence, hit.long())
    kept = diagram.count > 0
    assert torch.equal(bins.count, diagram.count[kept])
    assert torch.allclose(bins.accuracy, diagram.accuracy[kept])
    assert torch.allclose(bins.confidence, diagram.confidence[kept])
    rows = bins.rows()
    assert rows[0]["count"] == bins.count[0]
    hits = round(rows[-1]["accuracy"] * rows[-1]["count"])
    expected = binomtest(hits, rows[-1]["count"]).proportion_ci(0.95, method="exact")
    assert (rows[-1]["low"], rows[-1]["high"]) == pytest.approx((expected.low, expected.high))
    inside = (bins.null_low <= bins.accuracy) & (bins.accuracy <= bins.null_high)
    assert inside.double().mean() > 0.7


def test_bins_of_hits_alone_have_an_interval():
    bins = reliability_bins(torch.full((10,), 0.9).double(), torch.ones(10).double())
    assert (bins.low.item(), bins.high.item()) == (pytest.approx(0.025**0.1), 1.0)


def test_intervals_of_bins_are_those_of_clopper_and_pearson():
    hit = torch.tensor([0.0] * 7 + [1.0] * 5 + [1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    confidence = torch.tensor([0.1] * 7 + [0.9] * 5 + [0.5] * 4, dtype=torch.float64)
    bins = reliability_bins(confidence, hit)
    hits, misses = [0, 2, 5], [7, 2, 0]
    low = [beta.ppf(0.025, k, n + 1) if k else 0 for k, n in zip(hits, misses, strict=True)]
    high = [beta.ppf(0.975, k + 1, n) if n else 1 for k, n in zip(hits, misses, strict=True)]
    assert bins.low.tolist() == pytest.approx(low, abs=1e-12)
    assert bins.high.tolist() == pytest.approx(high, abs=1e-12)
