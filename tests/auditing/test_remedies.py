import pytest
import torch

from calmix import metrics, pool
from calmix.auditing.remedies import advise_camixup, advise_temperature, cross_validate
from calmix.calibrate import fit_temperature
from calmix.metrics import Interval
from tests.auditing.ensembles import scaled, signals


def test_a_temperature_corrects_the_under_confidence_of_pooling():
    predictions = signals()
    temperature, held_out, notes = cross_validate(predictions.logits, predictions.labels, order="pool")
    whole = fit_temperature(predictions.logits, predictions.labels).temperature
    assert temperature == pytest.approx(whole, rel=1e-6)
    assert temperature < 1
    before = metrics.ece(pool(predictions.logits), predictions.labels)
    assert metrics.ece(held_out, predictions.labels) < before / 2
    assert notes == ()


def test_no_example_is_scaled_by_a_temperature_that_saw_it():
    predictions = signals(examples=50)
    _, held_out, _ = cross_validate(predictions.logits, predictions.labels, order="member")
    changed = predictions.labels.clone()
    changed[7] = (changed[7] + 1) % 4
    _, other, _ = cross_validate(predictions.logits, changed, order="member")
    same = (held_out == other).all(1)
    assert same[7]
    assert int(same.sum()) == 10  # its fold alone
    assert torch.allclose(held_out.sum(1), torch.ones(50))


def test_of_many_examples_a_part_is_fitted(monkeypatch):
    monkeypatch.setattr("calmix.auditing.remedies.VALUES", 0)
    monkeypatch.setattr("calmix.auditing.remedies.ROWS", 300)
    predictions = signals(examples=1000)
    temperature, held_out, notes = cross_validate(predictions.logits, predictions.labels, order="pool")
    whole = fit_temperature(predictions.logits, predictions.labels).temperature
    assert temperature != whole
    assert abs(temperature - whole) < 0.15
    assert held_out.isfinite().all()
    assert "300 examples" in notes[0]


def test_a_fold_for_each_of_three_examples():
    predictions = signals(examples=3)
    _, held_out, _ = cross_validate(predictions.logits, predictions.labels, order="pool")
    assert held_out.isfinite().all()


def test_the_better_order_is_advised_and_no_gain_is_said():
    predictions = scaled(signals(), 0.5)

    def ece(probs):
        value = metrics.ece(probs, predictions.labels)
        return Interval(value, value - 0.01, value + 0.01)

    advice = advise_temperature(predictions.logits, predictions.labels, ece=ece)
    assert advice.ece_after_pool.value < advice.ece_after_member.value
    text = advice.text(Interval(0.3, 0.29, 0.31))
    assert f"{advice.pool:.3g} after pooling" in text
    assert "no clear gain" not in text
    assert "no clear gain" in advice.text(advice.ece_after_pool)


def test_one_member_has_one_temperature():
    predictions = signals(members=1, examples=300)
    advice = advise_temperature(
        predictions.logits, predictions.labels, ece=lambda probs: Interval(float(probs.sum()), 0, 0)
    )
    assert advice.pool == advice.member
    assert advice.ece_after_pool == advice.ece_after_member
    assert "pooling" not in advice.text(Interval(0.5, 0.4, 0.6))


def test_camixup_counts_the_classes_its_rule_would_mix():
    nan = float("nan")
    pool_gaps = torch.tensor([0.1, 0.0, -0.1, nan])
    member_gaps = torch.tensor([[-0.1, -0.1, -0.1, nan], [0.1, 0.1, -0.1, nan]])
    advice = advise_camixup("under-confident by pooling", pool_gaps, member_gaps)
    assert (advice.mixed_by_pool, advice.mixed_by_members) == (2, 2.0)
    assert advice.gap_of == "pool"
    assert "of 3 classes" in advice.text
    assert not advise_camixup("calibrated", pool_gaps, member_gaps).applies
    assert advise_camixup("compounding under-confidence", pool_gaps, member_gaps).gap_of == "member"


def test_predictions_are_left_as_they_are():
    predictions = signals(examples=40)
    before = predictions.logits.clone()
    cross_validate(predictions.logits, predictions.labels, order="member")
    assert torch.equal(before, predictions.logits)
