import json

import numpy as np
import pytest

from calmix import run_folder
from calmix.presets import preset
from calmix.report.results import read_results
from tests.report.fabricate import EPOCHS, fabricate


def read(run):
    (result,) = read_results([run])
    return result


def test_a_finished_run(tmp_path):
    result = read(fabricate(tmp_path, augment="camixup"))
    summary = json.loads(result.run.summary.read_text())
    assert result.key == ("cifar10", "batch", "camixup")
    assert result.clean("ece") == summary["clean"]["pool"]["ece"]
    assert result.members("gap") == pytest.approx(np.mean([m["gap"] for m in summary["clean"]["members"]]))
    assert result.other("temperature", "ece") == summary["temperature"]["ece"]
    assert result.other("cA") == summary["cA"]
    assert result.by_severity("accuracy")[5] == pytest.approx(result.clean("accuracy") - 0.25 - 0.01)
    assert len(result.history) == EPOCHS
    assert result.mixed.shape == (50, 4, 10)
    assert result.missing == ()


def test_runs_come_in_the_order_of_the_paper(tmp_path):
    runs = [fabricate(tmp_path, augment=a, seed=s) for a in ("camixup", "mixup", "none") for s in (1, 0)]
    found = [(r.recipe.augment, r.recipe.seed) for r in read_results(runs)]
    assert found == [(a, s) for a in ("none", "mixup", "camixup") for s in (0, 1)]


def test_a_run_that_has_just_begun(tmp_path):
    result = read(run_folder.create(preset("digits", "deep"), tmp_path))
    assert result.clean("ece") is None
    assert result.members("ece") is None
    assert result.by_severity("ece") == {}
    assert result.test_predictions() is None
    assert any("training" in text for text in result.missing)


def test_a_run_in_training_shows_the_lines_of_its_members(tmp_path):
    run = run_folder.create(preset("digits", "deep"), tmp_path)
    line = json.dumps({"member": 1, "epoch": 1, "accuracy": 0.5, "ece": 0.1, "gap_pool": 0.0})
    (run.stream(1) / "metrics.jsonl").write_text(line + '\n{"member": 1, "epo')
    assert [entry["epoch"] for entry in read(run).history] == [1]


def test_what_is_trained_but_not_evaluated_is_said(tmp_path):
    run = fabricate(tmp_path)
    run.summary.unlink()
    assert "an evaluation (calmix evaluate)" in read(run).missing


@pytest.mark.parametrize("content", ["", "[1, 2]", "{", '{"clean": {"pool": {"ece": null, "nll": "x"}}}'])
def test_a_broken_summary_is_said_and_no_error(tmp_path, content):
    run = fabricate(tmp_path)
    run.summary.write_text(content)
    result = read(run)
    assert result.clean("ece") is None
    assert result.clean("nll") is None
    assert result.missing


@pytest.mark.parametrize("content", ["[]", "[[1, 0], [1]]", "{}", "not json"])
def test_a_broken_record_of_who_was_mixed(tmp_path, content):
    run = fabricate(tmp_path, augment="camixup")
    run.mixed.write_text(content)
    result = read(run)
    assert result.mixed is None
    assert "a readable record of who was mixed" in result.missing


def test_broken_predictions_are_none(tmp_path):
    run = fabricate(tmp_path)
    run.predictions("test").write_bytes(b"PK")
    assert read(run).test_predictions() is None


def test_imagenet_is_a_folder_of_images_at_the_scale_of_the_paper(tmp_path):
    runs = [run_folder.create(preset("folder", "batch", scale=s), tmp_path) for s in ("paper", "laptop")]
    assert {r.dataset for r in read_results(runs)} == {"imagenet", "folder"}


def test_a_class_is_mixed_in_the_epoch_after_the_decision(tmp_path):
    run = fabricate(tmp_path, augment="camixup")
    run_folder.write_json(run.mixed, [[[1, 0]], [[1, 1]], [[0, 1]]])
    assert read(run).mixed.tolist() == [[[0, 0]], [[1, 0]], [[1, 1]]]
