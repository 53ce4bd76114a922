import pytest
import torch
from scipy.stats import binomtest

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
