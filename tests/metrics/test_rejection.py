import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calmix.metrics import selective
from tests.metrics.samples import calibrated, predictions


def curve(errors):
    return [sum(errors[: k + 1]) / (k + 1) for k in range(len(errors))]


def test_equals_the_loop_without_ties():
    probs, labels = calibrated(50, 4)
    order = probs.amax(1).argsort(descending=True)
    errors = (probs.argmax(1) != labels)[order].double().tolist()
    result = selective(probs, labels)
    assert result.risk.tolist() == pytest.approx(curve(errors))
    assert result.coverage.tolist() == pytest.approx([(k + 1) / 50 for k in range(50)])
    assert result.aurc == pytest.approx(sum(curve(errors)) / 50)
    assert result.eaurc == pytest.approx(result.aurc - sum(curve(sorted(errors))) / 50)


def test_ties_are_the_mean_over_all_orders():
    probs = torch.tensor([[0.9, 0.1]] + [[0.75, 0.25]] * 4 + [[0.6, 0.4]])
    errors = [1, 0, 1, 0, 0, 1]
    curves = [curve([1, *tied, 1]) for tied in itertools.permutations(errors[1:5])]
    expected = torch.tensor(curves).double().mean(0).tolist()
    assert selective(probs, torch.tensor(errors)).risk.tolist() == pytest.approx(expected, abs=1e-6)


@given(predictions(), st.randoms())
def test_order_of_examples_does_not_matter(sample, random):
    probs, labels = sample
    order = list(range(len(labels)))
    random.shuffle(order)
    first, second = selective(probs, labels), selective(probs[order], labels[order])
    assert second.risk.tolist() == pytest.approx(first.risk.tolist(), abs=1e-12)
    assert first.eaurc >= -1e-12
    assert float(first.risk[-1]) == pytest.approx(
        float((probs.numpy().argmax(1) != labels.numpy()).mean()), abs=1e-12
    )


def test_best_order_has_no_excess():
    probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    assert selective(probs, torch.tensor([0, 0, 1])).eaurc == 0
    assert selective(probs, torch.tensor([0, 0, 0])).aurc == 0
    assert selective(probs, torch.tensor([1, 1, 1])).aurc == 1
    assert selective(probs, torch.tensor([1, 0, 0])).eaurc == pytest.approx((1 + 1 / 2 + 1 / 3 - 1 / 3) / 3)
