"""A weight is how often a row counts."""

import functools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calmix import metrics
from calmix.errors import InputError
from tests.metrics.samples import calibrated, predictions

WEIGHTED = [metrics.ece, metrics.sce, metrics.nll, metrics.brier, metrics.accuracy, metrics.gap]


@given(predictions(), st.data())
def test_an_integer_weight_is_a_repeated_row(sample, data):
    probs, labels = sample
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(labels), max_size=len(labels)))
    counts[data.draw(st.integers(0, len(labels) - 1))] = 2
    weights = torch.tensor(counts)
    rows = torch.arange(len(labels)).repeat_interleave(weights)
    for metric in WEIGHTED:
        expected = pytest.approx(metric(probs[rows], labels[rows]), abs=1e-12)
        assert metric(probs, labels, weights=weights) == expected
        assert metric(probs, labels, weights=weights.double() / 7) == expected


@pytest.mark.parametrize("metric", WEIGHTED)
@pytest.mark.parametrize("weight", [1, 0.3, 1e-9, 1e300])
def test_equal_weights_change_nothing(metric, weight):
    probs, labels = calibrated(20_000, 7, temperature=0.5)
    value = metric(probs.float(), labels, weights=np.full(20_000, weight))
    assert value == pytest.approx(metric(probs.float(), labels), abs=1e-12)


@pytest.mark.parametrize("metric", WEIGHTED)
def test_bad_weights_raise(metric):
    probs, labels = calibrated(4, 3)
    for weights, message in (
        ([1.0, -0.5, 1, 1], r"weights\[1\] is -0\.5"),
        ([1.0, 1, float("nan"), 1], r"weights\[2\] is nan"),
        ([1.0, 1, 1, float("inf")], r"weights\[3\] is inf"),
        ([0.0] * 4, "weights are all 0"),
        ([1.0] * 3, "weights has 3 entries for 4 rows"),
        ([[1.0]] * 4, r"weights must have the axes \(examples\)"),
        ([True] * 4, "weights must hold floating-point numbers, not torch.bool"),
    ):
        with pytest.raises(InputError, match=message):
            metric(probs, labels, weights=torch.tensor(weights))


@pytest.mark.parametrize("metric", [metrics.ace, metrics.tace, metrics.dce, metrics.skce])
def test_other_metrics_refuse_weights(metric):
    with pytest.raises(InputError, match=f"weights cannot be used with {metric.__name__}: .*repeated|copy"):
        metric(*calibrated(4, 3), weights=torch.ones(4))


def test_weights_are_not_resampled():
    weighted = functools.partial(metrics.ece, weights=torch.ones(4))
    for call in (metrics.bootstrap, metrics.null):
        with pytest.raises(InputError, match="weights cannot be bound to ece"):
            call(weighted, *calibrated(4, 3))
