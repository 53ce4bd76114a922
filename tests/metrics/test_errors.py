import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics.functional.classification import multiclass_calibration_error

from calmix import metrics
from calmix.errors import InputError
from calmix.metrics import ace, ece, sce, tace
from calmix.metrics.resampling import STATISTICS
from calmix.metrics.sample import Sample
from tests.metrics import reference
from tests.metrics.samples import calibrated, predictions

BINS = st.sampled_from([1, 2, 10, 15, 49])


@given(predictions(), BINS)
def test_equal_width_bins_equal_reference(sample, num_bins):
    assert ece(*sample, num_bins=num_bins) == pytest.approx(reference.ece(*sample, num_bins), abs=1e-12)
    assert sce(*sample, num_bins=num_bins) == pytest.approx(reference.sce(*sample, num_bins), abs=1e-12)


@given(predictions(), BINS, st.booleans())
def test_equal_mass_bins_equal_reference(sample, num_bins, classwise):
    value = ace(*sample, num_bins=num_bins, classwise=classwise)
    assert value == pytest.approx(reference.ace(*sample, num_bins, classwise), abs=1e-12)


@given(predictions(), BINS, st.sampled_from([0.0, 0.01, 1 / 15, 0.25, 0.99]))
def test_tace_equals_reference(sample, num_bins, threshold):
    value = tace(*sample, num_bins=num_bins, threshold=threshold)
    assert value == pytest.approx(reference.tace(*sample, num_bins, threshold), abs=1e-12)


@pytest.mark.parametrize("name", ["ece", "ace", "sce", "tace"])
@pytest.mark.parametrize(("n", "classes"), [(1, 2), (1, 1000), (300, 2), (40, 1000)])
def test_extreme_shapes(name, n, classes):
    probs, labels = calibrated(n, classes, temperature=0.5)
    for p in (probs, probs.float()):
        assert getattr(metrics, name)(p, labels) == pytest.approx(
            getattr(reference, name)(p, labels), abs=1e-12
        )


def test_value_by_hand():
    # Two bins of confidence: {0.6, 0.6, 0.6} with accuracy 1/3 and {0.9} with accuracy 1.
    probs = torch.tensor([[0.6, 0.4], [0.6, 0.4], [0.4, 0.6], [0.1, 0.9]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 0, 1])
    assert ece(probs, labels) == pytest.approx(3 / 4 * (0.6 - 1 / 3) + 1 / 4 * 0.1)
    # Class 1: 0.4 0.4 | 0.6 0.9 in two bins of equal mass; one of each two is true.
    # Class 0: 0.1 0.4 | 0.6 0.6; one of each two is true.
    assert ace(probs, labels, num_bins=2, classwise=True) == pytest.approx(
        ((0.5 - 0.4) / 2 + (0.75 - 0.5) / 2 + (0.5 - 0.25) / 2 + (0.6 - 0.5) / 2) / 2
    )


def test_confidence_of_one_is_in_the_last_bin():
    # 100 rows at 1.0, half of them correct, and 100 at 0.95, all correct: in one bin the gaps cancel.
    probs = torch.tensor([[1.0, 0.0]] * 100 + [[0.95, 0.05]] * 100, dtype=torch.float64)
    labels = torch.tensor([0, 1] * 50 + [0] * 100)
    assert ece(probs, labels) == pytest.approx(abs(0.975 - 0.75))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_edge_belongs_to_the_bin_below(dtype):
    # With a partner just below or above the edge, the two gaps cancel in one bin and add in two.
    for m in range(8, 15):
        edge = torch.tensor(m / 15, dtype=torch.float64)
        p = edge.to(dtype)
        above = p.double() > edge  # the float32 nearest to m/15 may lie on either side of it
        near = torch.tensor(0.3 / 15, dtype=dtype)
        for partner, together in ((p - near, not above), (p + near, bool(above))):
            rows = torch.stack([torch.stack([c, 1 - c]) for c in (p, partner)])
            gaps = (1 - float(p)), (0 - float(partner))
            expected = abs(sum(gaps)) / 2 if together else sum(map(abs, gaps)) / 2
            assert ece(rows, torch.tensor([0, 1])) == pytest.approx(expected, abs=1e-12)


def test_next_float64_above_an_edge_is_in_the_next_bin():
    for num_bins in (3, 7, 15, 49, 100):
        for m in range(num_bins // 2 + 1, num_bins):
            p = np.nextafter(m / num_bins, 1)
            rows = torch.tensor([[p, 1 - p], [m / num_bins, 1 - m / num_bins]], dtype=torch.float64)
            gaps = 1 - p, -m / num_bins
            assert ece(rows, torch.tensor([0, 1]), num_bins=num_bins) == pytest.approx(
                sum(map(abs, gaps)) / 2
            )


@given(predictions(), st.randoms())
def test_order_of_examples_does_not_matter(sample, random):
    probs, labels = sample
    order = list(range(len(labels)))
    random.shuffle(order)
    for metric in (ece, ace, sce, tace):
        assert metric(probs[order], labels[order]) == pytest.approx(metric(probs, labels), abs=1e-12)


def test_tace_differs_from_ace():
    probs, labels = calibrated(2000, scale=4.0, temperature=0.5)
    assert abs(tace(probs, labels) - ace(probs, labels, classwise=True)) > 0.01
    assert tace(probs, labels, threshold=0.0) == pytest.approx(ace(probs, labels, classwise=True), abs=1e-12)


def test_threshold_is_strict():
    # Class 0 keeps 0.5 (a hit) and 0.9 (a miss), in two bins.
    # Class 1 keeps 0.5 (a miss) and three times 0.75 (hits): both runs end with 0.75, so all share a bin.
    probs = torch.tensor([[0.25, 0.75]] * 3 + [[0.5, 0.5], [0.9, 0.1]])
    labels = torch.tensor([1, 1, 1, 0, 1])
    first, second = (0.5 + 0.9) / 2, (3 - 2.75) / 4
    value = tace(probs, labels, num_bins=2, threshold=0.25)
    assert value == pytest.approx((first + second) / 2, abs=1e-7)


def test_threshold_is_compared_in_float64():
    # The float32 nearest to 0.1 is a little more than 0.1, and kept.
    probs = torch.tensor([[0.1, 0.9], [0.9, 0.1]])
    labels = torch.tensor([0, 1])
    value = tace(probs, labels, num_bins=2, threshold=0.1)
    assert value == pytest.approx(0.9, abs=1e-7)


def test_equals_torchmetrics_off_the_edges():
    for classes in (2, 10):
        probs, labels = calibrated(5000, classes, scale=1.0, temperature=0.7)
        peer = multiclass_calibration_error(probs, labels, classes, n_bins=15)
        assert ece(probs, labels) == pytest.approx(float(peer), abs=1e-6)


def test_options_out_of_range_raise():
    probs, labels = calibrated(10)
    for metric in (ece, ace, sce, tace):
        with pytest.raises(InputError, match="num_bins is 0"):
            metric(probs, labels, num_bins=0)
    with pytest.raises(InputError, match=r"threshold is 1\.5"):
        tace(probs, labels, threshold=1.5)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_bins", [2, 10, 15])
@pytest.mark.parametrize("name", ["sce", "tace"])
def test_many_classes_have_the_sums_of_single_values(name, num_bins, kind):
    """Values beside the edges of the bins, too: the next ones that the type has."""
    probs = calibrated(300, 60, temperature=0.3)[0].to(kind)
    for k in range(1, num_bins):
        edge = torch.tensor(k / num_bins, dtype=kind)
        beside = torch.stack([edge, *(edge.nextafter(torch.tensor(end, dtype=kind)) for end in (0.0, 1.0))])
        probs[3 * k : 3 * k + 3, k] = beside
        probs[3 * k : 3 * k + 3, :k] = 0
        probs[3 * k : 3 * k + 3, k + 1 :] = ((1 - beside) / (59 - k))[:, None]
    labels = torch.arange(300) % 60
    sample = Sample(probs, labels)
    options = {"sce": {}, "tace": {"threshold": 1 / num_bins}}[name]
    statistic = STATISTICS[getattr(metrics, name)](sample, num_bins=num_bins, **options)
    assert statistic.shortcut is not None
    plain = dataclasses.replace(statistic, shortcut=None)
    cells, expected = statistic.sum(sample.blocks()), plain.sum(sample.blocks())
    assert torch.equal(cells.size, expected.size)
    assert torch.equal(cells.hits, expected.hits)
    torch.testing.assert_close(cells.total, expected.total, rtol=1e-12, atol=1e-12)
    value = getattr(reference, name)(probs, labels, num_bins, *options.values())
    assert statistic.of(sample) == pytest.approx(value, abs=1e-12)
