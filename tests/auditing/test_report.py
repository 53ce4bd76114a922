import importlib
import json
import warnings

import numpy as np
import pytest
import torch

from calmix import InputError, metrics
from calmix.auditing import audit
from calmix.predictions import Predictions, pool
from calmix.progress import Finished
from tests.auditing.ensembles import scaled, signals, single


def quick(predictions, **options):
    return audit(predictions, resamples=100, **options)


@pytest.mark.parametrize(
    ("predictions", "verdict"),
    [
        (single(), "calibrated"),
        (single(sharpness=2.0), "over-confident"),
        (single(sharpness=0.5), "under-confident"),
        (signals(), "under-confident by pooling"),
        (scaled(signals(), 1.4), "under-confident by pooling"),
        (scaled(signals(), 0.5), "compounding under-confidence"),
        (Predictions(single(sharpness=2.0).logits.repeat(3, 1, 1), single().labels), "over-confident"),
        (Predictions(single(sharpness=0.5).logits.repeat(3, 1, 1), single().labels), "under-confident"),
    ],
)
def test_verdicts_of_ensembles_whose_calibration_is_known(predictions, verdict):
    report = quick(predictions)
    assert report.verdict == verdict
    assert verdict in report.to_json()


def test_errors_that_cancel_are_not_calibrated():
    over, under = single(sharpness=3.0, examples=2000), single(sharpness=0.55, examples=2000, seed=1)
    both = Predictions(torch.cat([over.logits, under.logits], 1), torch.cat([over.labels, under.labels]))
    report = quick(both)
    assert abs(report.evidence.gap.value) < 0.03
    assert report.verdict != "calibrated"


def test_calibrated_models_are_seldom_called_otherwise():
    verdicts = [quick(single(examples=300, seed=seed)).verdict for seed in range(10)]
    assert verdicts.count("calibrated") >= 8


def test_the_numbers_are_those_of_the_metrics():
    predictions = signals(examples=800)
    numbers = json.loads(quick(predictions).to_json())
    pooled = pool(predictions.logits.double())
    for name in ("accuracy", "nll", "brier", "ece", "ace", "sce", "tace", "dce", "skce"):
        expected = getattr(metrics, name)(pooled, predictions.labels)
        assert numbers[name] == pytest.approx(expected, rel=1e-6), name
        low, high = numbers[f"{name}_interval"]
        assert low <= numbers[name] <= high, name
    assert numbers["pool"]["gap"] == pytest.approx(metrics.gap(pooled, predictions.labels), abs=1e-9)
    assert numbers["pool"]["ece"] == numbers["ece"]
    for k, member in enumerate(numbers["members"]):
        probs = predictions.logits[k].softmax(-1)
        assert member["gap"] == pytest.approx(metrics.gap(probs, predictions.labels), abs=1e-9)
        assert member["ece"] == pytest.approx(metrics.ece(probs, predictions.labels), abs=1e-9)
        assert member["accuracy"] == pytest.approx(metrics.accuracy(probs, predictions.labels))
    mean = np.mean([member["gap"] for member in numbers["members"]])
    assert numbers["member_mean"]["gap"] == pytest.approx(mean, abs=1e-9)
    assert {"pool", "member", "ece_after_pool", "ece_after_member"} <= set(numbers["temperature"])
    assert numbers["explanation"]
    gaps = {int(row["name"]): row["gap"] for row in numbers["classes"]}
    expected = metrics.class_gap(pooled, predictions.labels).tolist()
    assert [gaps[k] for k in range(4)] == pytest.approx(expected, abs=1e-9)


def test_the_order_of_members_does_not_matter():
    predictions = signals(examples=500)
    turned = Predictions(predictions.logits.flip(0), predictions.labels)
    one, two = quick(predictions), quick(turned)
    assert one.metrics["ece"].value == pytest.approx(two.metrics["ece"].value, abs=1e-7)
    assert one.verdict == two.verdict


def test_half_precision_is_widened_and_a_plain_matrix_refused():
    predictions = signals(examples=300)
    rounded = Predictions(predictions.logits.half(), predictions.labels.int())
    widened = Predictions(rounded.logits.float(), predictions.labels)
    assert quick(rounded).to_json() == quick(widened).to_json()
    with pytest.raises(InputError, match=r"axes \(members, examples, classes\)"):
        quick(Predictions(predictions.logits[0], predictions.labels))


def test_the_same_call_gives_the_same_report():
    assert quick(signals(examples=300)).to_json() == quick(signals(examples=300)).to_json()


def test_groups_instead_of_classes():
    good, bad = single(examples=1000), single(sharpness=3.0, examples=1000, seed=1)
    groups = np.array(["old"] * 1000 + ["<script>"] * 1000)
    labels = torch.cat([good.labels, bad.labels])
    both = Predictions(torch.cat([good.logits, bad.logits], 1), labels, groups=groups)
    report = quick(both, by="group")
    assert [g.name for g in report.classes] == ["<script>", "old"]
    assert report.classes[0].direction == "over-confident"
    with pytest.raises(InputError, match="no groups"):
        quick(good, by="group")


def test_names_of_classes():
    assert {g.name for g in quick(single(examples=300), class_names=list("abcd")).classes} == set("abcd")
    with pytest.raises(InputError, match="2 names for 4 classes"):
        quick(single(examples=300), class_names=["a", "b"])


def test_perfect_predictions_and_impossible_labels_are_valid_json():
    labels = torch.arange(200) % 2
    logits = torch.where(torch.eye(2)[labels] > 0, 0.0, -torch.inf)[None]
    perfect = json.loads(quick(Predictions(logits, labels)).to_json())
    assert perfect["verdict"] == "calibrated"
    assert perfect["nll"] == 0
    wrong = labels.clone()
    wrong[0] = 1 - wrong[0]
    report = quick(Predictions(logits, wrong))
    assert report.metrics["nll"].value == float("inf")
    numbers = json.loads(report.to_json(), parse_constant=pytest.fail)
    assert numbers["nll"] is None
    assert any("infinite" in note for note in numbers["notes"])


def test_a_sure_mistake_is_not_taken_for_an_impossible_one():
    """exp(-120) is 0 in float32: the logits say that it is not."""
    predictions = single(examples=300)
    predictions.logits[0, 0, predictions.labels[0]] -= 120
    exact = torch.nn.functional.cross_entropy(predictions.logits[0].double(), predictions.labels)
    assert quick(predictions).metrics["nll"].value == pytest.approx(float(exact))


def test_an_audit_warns_in_its_notes_alone():
    sure = Predictions(0.5 * torch.eye(3)[torch.arange(90) % 3][None], torch.arange(90) % 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = quick(sure)
    assert any("bound of its range" in note for note in report.notes)
    assert any("90 examples" in note for note in report.notes)


def test_two_examples_are_the_least():
    few = Predictions(torch.tensor([[[2.0, 0.0], [0.0, 2.0]]]), torch.tensor([0, 0]))
    assert quick(few).examples == 2
    with pytest.raises(InputError, match="two examples"):
        quick(Predictions(few.logits[:, :1], few.labels[:1]))


def test_sorted_files_do_not_fool_the_kernel_error(monkeypatch):
    monkeypatch.setattr(importlib.import_module("calmix.metrics.resampling"), "MAX_PAIRWISE", 100)
    predictions = single(examples=4000)
    order = predictions.labels.argsort()
    report = quick(Predictions(predictions.logits[:, order], predictions.labels[order]))
    interval = report.metrics["skce"]
    assert interval.low <= 0 <= interval.high
    assert any("linear estimator" in note for note in report.notes)


def test_progress_goes_from_nothing_to_the_end():
    events = []
    quick(signals(examples=100), reporter=events.append)
    *steps, end = events
    shares = [event.done / event.total for event in steps]
    assert shares == sorted(set(shares))
    assert shares[0] == 0
    assert shares[-1] < 1
    assert end == Finished("audit", "under-confident by pooling")
