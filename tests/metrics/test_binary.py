"""probs (N,) are P(y = 1)."""

import functools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss

from calmix import metrics
from calmix.errors import InputError
from tests.metrics import reference

POSITIVES = st.lists(
    st.tuples(st.one_of(st.floats(0, 1), st.integers(0, 15).map(lambda m: m / 15)), st.booleans()),
    min_size=1,
    max_size=30,
)


def binary(n=300, power=1.0, seed=0):
    """P(y = 1), and labels of probability P ** power: calibrated at 1."""
    draw = np.random.default_rng(seed)
    p = draw.uniform(0, 1, n)
    return p, (draw.uniform(0, 1, n) < p**power).astype(np.int64)


@given(POSITIVES, st.sampled_from([1, 2, 15]))
def test_bins_are_of_the_probability_itself(rows, num_bins):
    p, y = [p for p, _ in rows], [y for _, y in rows]
    sample = torch.tensor(p, dtype=torch.float64), torch.tensor(y).long()
    width = pytest.approx(reference.error(p, y, reference.by_width(num_bins)), abs=1e-12)
    mass = pytest.approx(reference.error(p, y, reference.by_mass(p, num_bins)), abs=1e-12)
    assert metrics.ece(*sample, num_bins=num_bins) == width
    assert metrics.sce(*sample, num_bins=num_bins) == width
    assert metrics.ace(*sample, num_bins=num_bins) == mass
    assert metrics.ace(*sample, num_bins=num_bins, classwise=True) == mass
    squared = reference.squared_error(p, y, reference.by_mass(p, num_bins))
    assert metrics.dce(*sample, num_bins=num_bins, squared=True) == pytest.approx(squared, abs=1e-12)
    assert metrics.gap(*sample) == pytest.approx(np.mean(y) - np.mean(p), abs=1e-12)


def test_scores_by_hand():
    p, y = torch.tensor([0.25, 0.75, 0.5, 1.0]), torch.tensor([0, 0, 0, 1])
    assert metrics.accuracy(p, y) == 0.75  # one half predicts y = 0, the first class
    assert metrics.gap(p, y) == 1 / 4 - 2.5 / 4
    assert metrics.brier(p, y) == (0.0625 + 0.5625 + 0.25) / 4
    assert metrics.nll(p, y) == pytest.approx(-np.log([0.75, 0.25, 0.5, 1.0]).mean())
    assert metrics.nll(p, 1 - y) == float("inf")
    assert metrics.reliability(p, y, num_bins=2).gap.tolist() == [-0.375, -0.375]
    assert metrics.ece(p, y, num_bins=1, weights=torch.tensor([0, 1, 0, 0])) == 0.75


def test_equal_two_columns():
    p, y = binary(power=2.0)
    both = np.stack([1 - p, p], axis=1)
    assert metrics.brier(p, y) == pytest.approx(brier_score_loss(y, p), rel=1e-12)
    for metric in (metrics.nll, metrics.accuracy, metrics.skce):
        assert metric(p, y) == pytest.approx(metric(both, y), rel=1e-12)
    assert metrics.refinement(p, y).refinement == pytest.approx(
        metrics.refinement(both, y).refinement, rel=1e-9
    )
    assert metrics.selective(p, y).aurc == pytest.approx(metrics.selective(both, y).aurc, rel=1e-12)


def test_brier_parts_are_of_the_positive_class():
    p, y = binary(power=2.0)
    parts = metrics.brier_parts(p, y)
    score = parts.miscalibration - parts.discrimination + parts.uncertainty
    assert score == pytest.approx(metrics.brier(p, y), abs=1e-14)
    assert parts.uncertainty == pytest.approx(y.mean() * (1 - y.mean()))


def test_errors_that_cancel_in_the_top_label_are_seen():
    """Over-confident for one class, under-confident for the other."""
    p, y = np.repeat([0.3, 0.7], 500), np.tile([0] * 3 + [1] * 2, 200)
    p, y = np.where(p == 0.7, 0.7, 0.3), np.where(p == 0.7, np.arange(1000) % 5 < 4, y)
    y = y.astype(np.int64)  # rates 0.4 at 0.3 and 0.8 at 0.7
    assert metrics.ece(p, y) == pytest.approx(0.1)
    assert metrics.smooth_ece(p, y) == pytest.approx(0.1, abs=1e-6)
    assert metrics.gap(p, y) == pytest.approx(0.1)
    assert metrics.gap(np.stack([1 - p, p], 1), y) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "metric",
    [metrics.ece, metrics.sce, metrics.tace, metrics.dce, metrics.skce, metrics.ace, metrics.smooth_ece],
)
def test_null_and_bootstrap(metric):
    wrong, right = binary(power=2.0), binary()
    assert metrics.null(metric, *wrong, resamples=99).p_value == 0.01
    assert metrics.null(metric, *right, resamples=99).p_value > 0.02
    interval = metrics.bootstrap(metric, *wrong, resamples=20)
    assert interval.low <= interval.value <= interval.high
    assert interval.value == pytest.approx(metric(*wrong), abs=1e-12)


def test_bad_input_raises():
    p, y = binary(5)
    calls = (
        metrics.ece,
        metrics.ace,
        metrics.nll,
        metrics.skce,
        functools.partial(metrics.null, metrics.ece),
    )
    for call in calls:
        for value in (-0.1, 1.5, np.nan, np.inf):
            wrong = p.copy()
            wrong[3] = value
            with pytest.raises(InputError, match=rf"probs\[3\] is {value}: .* pass their sigmoid"):
                call(wrong, y)
        with pytest.raises(InputError, match=r"labels\[0\] is 2: it must be in 0\.\.1"):
            call(p, np.full(5, 2))
    with pytest.raises(InputError, match=r"probs must have the axes \(examples, classes\)"):
        metrics.Accumulator(2).update(p, y)
