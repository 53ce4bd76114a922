import math

import pytest
import torch
from hypothesis import given
from sklearn.metrics import brier_score_loss, log_loss

from calmix.metrics import accuracy, brier, gap, nll
from tests.metrics import reference
from tests.metrics.samples import calibrated, predictions


@given(predictions())
def test_equal_reference(sample):
    assert accuracy(*sample) == pytest.approx(reference.accuracy(*sample), abs=1e-12)
    assert gap(*sample) == pytest.approx(reference.gap(*sample), abs=1e-12)
    assert brier(*sample) == pytest.approx(reference.brier(*sample), abs=1e-12)
    assert nll(*sample) == pytest.approx(reference.nll(*sample), abs=1e-12)


def test_first_of_equal_probabilities_is_predicted():
    tied = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    assert accuracy(tied, torch.tensor([0, 0])) == 1
    assert accuracy(tied, torch.tensor([1, 1])) == 0
    # Ties below the largest, and ties in a row that sums to a little more than one.
    assert accuracy(torch.tensor([[0.4, 0.2, 0.4]]), torch.tensor([2])) == 0
    assert accuracy(torch.tensor([[0.5004, 0.5004]]), torch.tensor([1])) == 0
    assert accuracy(torch.tensor([[0.2, 0.2, 0.6]]), torch.tensor([2])) == 1


def test_nll_of_a_label_with_probability_zero_is_infinite():
    probs, labels = torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([1, 0])
    assert nll(probs, labels) == math.inf
    assert brier(probs, labels) == (2 + 0.5) / 2


def test_equal_scikit_learn():
    probs, labels = calibrated(500, 7, temperature=0.6)
    assert nll(probs, labels) == pytest.approx(log_loss(labels, probs, labels=range(7)), rel=1e-12)
    binary, truth = calibrated(500, 2)
    # Theirs sums over one of the two classes.
    assert brier(binary, truth) == pytest.approx(2 * brier_score_loss(truth, binary[:, 1]), rel=1e-12)


def test_float32_is_summed_in_float64():
    probs, labels = calibrated(50_000, 3)
    narrow = probs.float()
    assert brier(narrow, labels) == pytest.approx(brier(narrow.double(), labels), abs=1e-13)
    assert nll(narrow, labels) == pytest.approx(nll(narrow.double(), labels), abs=1e-13)
