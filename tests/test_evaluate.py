import json

import pytest
import torch

from calmix import data, load_predictions, metrics, pool
from calmix.build import load_splits
from calmix.data.corrupted import write_corrupted
from calmix.evaluate import METRICS, evaluate
from calmix.progress import Silence
from tests.scenarios import tiny, trained

NAMES = ("contrast", "gaussian_noise")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tiny("deep", corruption_size=20), tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def summary(run):
    return evaluate(run, listener=Silence(), corruptions=NAMES)


def test_every_metric_of_the_pool_with_its_interval(run, summary):
    held = load_predictions(run.predictions("test"))
    assert held.logits.shape == (2, 50, 10)
    for name, metric in METRICS.items():
        assert summary["clean"]["pool"][name] == metric(pool(held.logits.double()), held.labels)
        low, high = summary["clean"]["pool"][f"{name}_interval"]
        assert low <= summary["clean"]["pool"][name] <= high
    for logits, member in zip(held.logits, summary["clean"]["members"], strict=True):
        assert member["ece"] == metrics.ece(logits.softmax(-1), held.labels)


def test_corrupted_means_are_over_types_and_severities(run, summary):
    accuracies = []
    for name in NAMES:
        for severity in range(1, 6):
            held = load_predictions(run.predictions(f"{name}-{severity}"))
            assert held.logits.shape == (2, 20, 10)
            accuracies.append(metrics.accuracy(pool(held.logits), held.labels))
    assert summary["cA"] == pytest.approx(100 * sum(accuracies) / 10)
    assert set(summary["corrupted"]) == set(NAMES)


def test_the_summary_is_on_disk_and_a_second_call_predicts_nothing(run, summary, monkeypatch):
    assert json.loads(run.summary.read_text()) == summary
    monkeypatch.setattr("calmix.evaluate.predict", pytest.fail)
    assert evaluate(run, listener=Silence(), corruptions=NAMES) == summary


def test_temperature_is_fitted_on_validation_data(run, summary):
    validation = load_predictions(run.predictions("validation"))
    logs = pool(validation.logits).double().log()
    best = min(
        (0.01 * t for t in range(5, 1000)),
        key=lambda t: metrics.nll((logs / t).softmax(-1), validation.labels),
    )
    assert summary["temperature"]["temperature"] == pytest.approx(best, abs=0.006)


def test_official_folders_give_the_same_images(run, tmp_path):
    splits = load_splits(run.recipe, None)
    whole = data.load("digits").test
    write_corrupted(whole.inputs, whole.labels, tmp_path / "c", names=["contrast"])
    other = trained(tiny("deep", corruption_size=0, epochs=1), tmp_path)
    evaluate(other, listener=Silence(), corruptions=["contrast"], corrupted_root=tmp_path / "c")
    held = load_predictions(other.predictions("contrast-3"))
    assert torch.equal(held.labels, splits.test.labels)
    fly = trained(tiny("deep", corruption_size=0, epochs=1), tmp_path / "fly")
    evaluate(fly, listener=Silence(), corruptions=["contrast"])
    # Contrast draws nothing, so both ways of getting the images agree.
    torch.testing.assert_close(load_predictions(fly.predictions("contrast-3")).logits, held.logits)


def test_every_test_image_counts(tmp_path):
    run = trained(tiny(test_size=0, epochs=1), tmp_path)
    assert evaluate(run, listener=Silence())["clean"]["examples"] == 597
