import dataclasses
import json
import math
import shutil

import pytest
import torch

from calmix import InputError, Predictions, data, load_predictions, metrics, pool, run_folder
from calmix.build import load_splits
from calmix.cli.evaluate import print_summary
from calmix.data.corrupted import write_corrupted
from calmix.evaluate import METRICS, evaluate, judge
from calmix.paper.estimates import Estimates
from calmix.paper.quantities import SCALED_CECE, SCALED_ECE
from calmix.paper.study import NotRunError, Study, read_result
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
        assert member["ece"] == metrics.ece(logits.double().softmax(-1), held.labels)


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


def test_deleted_predictions_are_made_again(run, summary, tmp_path):
    folder = shutil.copytree(run.folder, tmp_path / run.folder.name)
    shutil.rmtree(folder / "predictions")
    copy = run_folder.open_run(folder)
    assert evaluate(copy, listener=Silence(), corruptions=NAMES) == summary
    for what in ("validation", "contrast-3"):
        assert copy.predictions(what).read_bytes() == run.predictions(what).read_bytes()


def test_temperature_is_fitted_on_validation_data(run, summary):
    validation = load_predictions(run.predictions("validation"))
    logs = pool(validation.logits).double().log()
    best = min(
        (0.01 * t for t in range(5, 1000)),
        key=lambda t: metrics.nll((logs / t).softmax(-1), validation.labels),
    )
    assert summary["temperature"]["temperature"] == pytest.approx(best, abs=0.006)


def test_what_was_trained_on_its_validation_images_has_no_temperature(tmp_path):
    run = trained(tiny("single", train_on_validation=True, mixing="mixup", corruption_size=20), tmp_path)
    summary = evaluate(run, listener=Silence(), corruptions=["contrast"])
    assert summary["temperature"] is None
    assert "cECE_temperature" not in summary
    print_summary(run, summary)
    result = read_result(run)
    assert SCALED_ECE.of(result) is None
    assert SCALED_CECE.of(dataclasses.replace(result, summary=summary)) is None
    estimates = Estimates(Study.of([run], "digits"))
    assert estimates.ece("single", "mixup").value == pytest.approx(100 * summary["clean"]["pool"]["ece"])
    with pytest.raises(NotRunError, match="a temperature of single with Mixup"):
        estimates.scaled_ece("single", "mixup")


def test_a_member_that_is_sure_and_wrong_has_a_finite_nll():
    logits = torch.zeros(2, 3, 4)
    logits[:, 0, 1] = 120.0
    judged = judge(Predictions(logits, torch.zeros(3, dtype=torch.long)), resamples=2)
    for nll in (judged["pool"]["nll"], *(member["nll"] for member in judged["members"])):
        assert nll == pytest.approx((120 + 2 * math.log(4)) / 3)


def test_nobody_else_writes_a_summary_meanwhile(run, summary):
    with run_folder.lock(run.folder), pytest.raises(InputError, match="another process"):
        evaluate(run, listener=Silence())
    before = run.summary.stat().st_mtime_ns
    evaluate(run, listener=Silence())
    assert run.summary.stat().st_mtime_ns == before


@pytest.mark.parametrize("device", ["banana", "cuda:99"])
def test_a_device_that_is_not_here_is_told_in_words(run, device):
    with pytest.raises(InputError, match=f"--device {device} cannot be had here"):
        evaluate(run, listener=Silence(), device=device)


def test_a_summary_that_is_none_is_the_users_to_mend(tmp_path):
    run = trained(tiny("single"), tmp_path)
    run.summary.write_text("[]")
    with pytest.raises(InputError, match="holds no object"):
        evaluate(run, listener=Silence())


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
