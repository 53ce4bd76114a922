import json

import numpy as np
import pytest

from calmix.runs import folder
from calmix.runs.influence import write_influences
from calmix.runs.presets import preset
from calmix.study.results import read_result, read_results
from tests.fabricate import fabricate

MIXED = [[[1, 0, 0, 0], [1, 1, 0, 0]], [[1, 0, 0, 0], [0, 1, 0, 0]]]  # (epochs, members, classes)


def test_a_finished_run(tmp_path):
    result = read_result(fabricate(tmp_path, "batch", "camixup", corrupted=(0.6, 0.5), mixed=MIXED))
    assert result.missing == ()
    assert result.summary.clean.pool.accuracy == pytest.approx(0.8)
    assert result.summary.corrupted["fog"][3].pool.accuracy == pytest.approx(0.6)
    assert result.mixed.tolist() == [[1, 0, 0, 0], [0.5, 1, 0, 0]]
    assert result.class_accuracy.tolist() == pytest.approx([1, 1, 1, 0.2])  # 400 of 2,000 are wrong
    assert result.test.logits.shape == (2, 2000, 4)
    assert result.group_names(4) == ["0", "1", "2", "3"]


def test_influences_of_corrupted_images_come_from_the_evaluation_or_from_predictions(tmp_path):
    run = fabricate(tmp_path, "batch", "none", corrupted=lambda name, severity: (0.9 - severity / 10, 0.5))
    written = read_result(run).influence("ca")
    run.influences_path.write_bytes(b"damaged")
    assert read_result(run).influence("ca").tolist() == written.tolist()
    write_influences(run.influences_path, dict.fromkeys(("ca", "cece"), np.zeros(len(written))))
    assert not read_result(run).influence("ca").any()  # no predictions are read


def test_the_members_of_a_deep_ensemble_are_joined(tmp_path):
    result = read_result(fabricate(tmp_path, "deep", "camixup", mixed=MIXED, members=2))
    assert result.mixed.tolist() == [[1, 0, 0, 0], [0.5, 1, 0, 0]]
    assert [(epoch.member, epoch.epoch) for epoch in result.history] == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_runs_come_in_the_order_of_the_paper(tmp_path):
    runs = [fabricate(tmp_path, "batch", a, seed=s) for a in ("camixup", "mixup", "none") for s in (10, 2)]
    order = [(r.recipe.augment, r.recipe.seed) for r in read_results(runs)]
    assert order == [(a, s) for a in ("none", "mixup", "camixup") for s in (2, 10)]


def test_groups_differ_in_the_seed_alone(tmp_path):
    runs = [fabricate(tmp_path, "deep", "mixup", seed=s, alpha=a) for a in (0.2, 1.0) for s in (0, 1)]
    runs.append(fabricate(tmp_path, "deep", "none"))
    groups = read_results(runs).groups()
    assert {group.title: len(group.results) for group in groups} == {
        "DE, none": 1,
        "DE, Mixup, alpha 0.2": 2,
        "DE, Mixup, alpha 1": 2,
    }
    assert len(read_results(runs).where(augment="mixup", alpha=0.2)) == 2


def test_groups_say_in_what_they_differ(tmp_path):
    runs = [
        fabricate(tmp_path, "deep", "mixup", alpha=0.5),
        fabricate(tmp_path, "deep", "mixup", alpha=1.0),
        fabricate(tmp_path, "batch", "none"),
        fabricate(tmp_path, "single", "none", train_size=100, width=4),
        fabricate(tmp_path, "single", "none", train_size=None, width=10, dropout=0.1),
    ]
    assert [(group.recipe.ensemble, group.differs) for group in read_results(runs).groups()] == [
        ("single", "train size default, width 10, dropout 0.1"),
        ("single", "train size 100, width 4, dropout default"),
        ("batch", ""),
        ("deep", "alpha 0.5"),
        ("deep", "alpha 1"),
    ]


def test_groups_that_differ_in_a_number_come_by_its_size(tmp_path):
    runs = [fabricate(tmp_path, "deep", "mixup", alpha=a) for a in (10.0, 2.0, 0.3)]
    runs += [fabricate(tmp_path, "deep", width=w) for w in (16, 8)]
    groups = read_results(runs).groups()
    assert [group.differs for group in groups] == ["width 8", "width 16", "alpha 0.3", "alpha 2", "alpha 10"]


def test_recipes_of_equal_content_are_one_group_whatever_their_scale(tmp_path):
    runs = [fabricate(tmp_path / s, "deep", seed=0, scale="paper").recipe for s in ("a", "b")]
    other = folder.create(runs[1].replace(scale="laptop", seed=1), tmp_path / "c")
    group, *rest = read_results([*map(folder.open_run, tmp_path.glob("*/*"))]).groups()
    assert not rest
    assert len(group.results) == 2  # the same run in two folders counts once
    assert [result.run.folder for result in group.results if result.recipe.seed == 1] == [other.folder]
    assert len(group.summaries) == 1  # of those that are evaluated


def test_of_one_run_in_several_folders_the_most_complete_is_read(tmp_path):
    run = fabricate(tmp_path / "runs", "deep", corrupted=(0.7, 0.8))
    fabricate(tmp_path / "a", "deep")
    folder.create(run.recipe, tmp_path / "z")
    (result,) = read_results([*map(folder.open_run, tmp_path.glob("*/*"))])
    assert result.run.folder == run.folder


def test_a_run_that_has_just_begun(tmp_path):
    result = read_result(folder.create(preset("digits", "deep"), tmp_path))
    assert result.summary is result.test is result.mixed is result.class_accuracy is None
    assert any("training" in text for text in result.missing)


def test_a_run_in_training_has_the_epochs_of_its_members(tmp_path):
    run = folder.create(preset("digits", "deep"), tmp_path)
    finished = fabricate(tmp_path / "other", history=1)
    line = (finished.folder / "metrics.jsonl").read_text()
    (run.stream_folder(1) / "metrics.jsonl").write_text(line + '{"member": 1, "epo')
    assert [epoch.epoch for epoch in read_result(run).history] == [1]


def test_a_trained_run_lacks_its_evaluation(tmp_path):
    run = fabricate(tmp_path)
    run.summary_path.unlink()
    assert "an evaluation (calmix evaluate)" in read_result(run).missing


@pytest.mark.parametrize("content", ["", "[1, 2]", "{", '{"version": 1}', '{"version": 2, "clean": 3}'])
def test_a_broken_summary_is_listed_and_no_error(tmp_path, content):
    run = fabricate(tmp_path)
    run.summary_path.write_text(content)
    result = read_result(run)
    assert result.summary is None
    assert any("its numbers" in text for text in result.missing)


def test_broken_predictions_are_none(tmp_path):
    run = fabricate(tmp_path)
    run.predictions_path("test").write_bytes(b"PK")
    assert read_result(run).test is None


def test_streams_of_different_length_have_no_shares(tmp_path):
    run = fabricate(tmp_path, "deep", "camixup", mixed=MIXED, members=2)
    path = run.folder / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert read_result(run).mixed is None


def test_of_doubled_runs_the_one_with_more_conditions_is_kept(tmp_path):
    whole = fabricate(tmp_path / "evidence", "batch", corrupted=(0.6, 0.5))
    part = fabricate(tmp_path / "runs", "batch", corrupted=(0.6, 0.5))
    path = part.folder / "summary.json"
    record = json.loads(path.read_text())
    record["corrupted"] = {"fog": record["corrupted"]["fog"]}
    path.write_text(json.dumps(record))
    whole.predictions_path("test").unlink()
    runs = [part, whole]
    for order in (runs, runs[::-1]):
        (result,) = read_results(order)
        assert result.run.folder == whole.folder


def test_groups_of_classes_are_numbered(tmp_path):
    result = read_result(fabricate(tmp_path, classes=["cat", "dog", "owl", "fox"]))
    assert result.group_names(4) == ["cat", "dog", "owl", "fox"]
    assert result.group_names(2) == ["0", "1"]


def test_fabricated_files_are_those_of_a_run(tmp_path):
    run = fabricate(tmp_path, "batch", "none", corrupted=(0.6, 0.5))
    assert json.loads((run.folder / "recipe.json").read_text())["ensemble"] == "batch"
    accuracy = run.predictions("fog-5").logits.mean(0).argmax(1) == run.predictions("fog-5").labels
    assert float(accuracy.double().mean()) == pytest.approx(0.6)
    assert np.isfinite([epoch.loss for epoch in run.history]).all()


def test_what_damaged_files_cost_is_said(tmp_path):
    run = fabricate(tmp_path, "batch", "camixup", mixed=MIXED)
    path = run.predictions_path("test")
    path.write_bytes(path.read_bytes()[:-40])
    history = run.folder / "metrics.jsonl"
    history.write_bytes(history.read_bytes() + b"[[\n")
    result = read_result(run)
    assert "test predictions that can be read (calmix evaluate makes them again)" in result.missing
    assert "some of its epochs (1 lines of metrics.jsonl cannot be read)" in result.missing
    assert result.test is None


def test_mixed_classes_of_different_lengths_are_left_out(tmp_path):
    run = fabricate(tmp_path, "batch", "camixup", mixed=MIXED)
    history = run.folder / "metrics.jsonl"
    line = json.loads(history.read_text().splitlines()[0])
    line["mixed_classes"] = [[1], [1, 0, 1]]
    history.write_text(json.dumps(line) + "\n" + history.read_text())
    assert read_result(run).mixed is None
