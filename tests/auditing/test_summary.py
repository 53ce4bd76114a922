import math

import pytest
import torch

from calmix import metrics, pool
from calmix.auditing import summary as module
from calmix.auditing.summary import summarise
from calmix.predictions import Predictions
from tests.auditing.ensembles import signals


@pytest.mark.parametrize("members", [1, 3])
def test_everything_against_the_metrics(monkeypatch, members):
    monkeypatch.setattr(module, "BLOCK", 4 * 64)  # several blocks, the last one shorter
    predictions = signals(members=members, examples=150)
    logits, labels = predictions.logits.double(), predictions.labels
    probs = pool(logits)
    result = summarise(predictions.logits, labels)
    near = {"abs": 1e-12}
    assert torch.allclose(result.probs, probs, atol=1e-14)
    assert float(result.hit.mean()) == pytest.approx(metrics.accuracy(probs, labels), **near)
    assert float((result.hit - result.confidence).mean()) == pytest.approx(metrics.gap(probs, labels), **near)
    assert float(result.nll.mean()) == pytest.approx(metrics.nll(probs, labels), **near)
    assert float(result.brier.mean()) == pytest.approx(metrics.brier(probs, labels), **near)
    assert torch.equal(result.prediction, probs.argmax(1))
    entropies = metrics.uncertainty(logits)
    assert torch.allclose(result.total_entropy, entropies.total, atol=1e-12)
    assert torch.allclose(result.data_entropy, entropies.data, atol=1e-12)
    assert torch.allclose(result.class_total, probs.sum(0))
    assert torch.allclose(result.class_square, probs.square().sum(0))
    own = torch.stack([probs[labels == k, k].sum() for k in range(4)])
    assert torch.allclose(result.class_label_total, own)
    alone = [logits[m].softmax(-1) for m in range(members)]
    assert result.member_ece.tolist() == pytest.approx([metrics.ece(p, labels) for p in alone], **near)
    assert result.member_gaps.gap.tolist() == pytest.approx([metrics.gap(p, labels) for p in alone], **near)
    assert result.member_accuracy.tolist() == pytest.approx([metrics.accuracy(p, labels) for p in alone])
    gaps = torch.stack([metrics.class_gap(p, labels) for p in (probs, *alone)])
    assert torch.allclose(result.true_class_gaps, gaps, atol=1e-12)


def test_impossible_labels_and_sure_mistakes():
    """exp(-800) is 0 in float64: the logits say that it is not."""
    logits = torch.tensor([[[0.0, -800.0], [0.0, -torch.inf], [0.0, 0.0]]]).double()
    result = summarise(logits, torch.tensor([1, 1, 1]))
    assert result.nll.tolist() == pytest.approx([800, float("inf"), math.log(2)])
    assert result.data_entropy[1] == 0
    assert result.prediction.tolist() == [0, 0, 0]  # ties go to the first class


def test_predictions_are_left_as_they_are():
    predictions = signals(examples=40)
    before = predictions.logits.clone()
    summarise(predictions.logits, predictions.labels)
    double = Predictions(before.double(), predictions.labels)
    summarise(double.logits, double.labels)
    assert torch.equal(before, predictions.logits)
    assert torch.equal(before.double(), double.logits)
