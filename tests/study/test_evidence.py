import json

import numpy as np
import pytest

from calmix import InputError
from calmix.paper.claims import claims_record, judge_claims
from calmix.runs.folder import find_runs
from calmix.study.evidence import FILE, keep_evidence, read_evidence
from calmix.study.plan import is_finished, locate_run
from calmix.study.results import read_result, read_results
from tests.fabricate import fabricate, random_predictions

MIXED = [[[0, 0, 0, 1]] * 2, [[0, 1, 0, 1]] * 2]


def kept(run, folder):
    return read_result(find_runs([keep_evidence(read_result(run), folder)])[0])


@pytest.mark.parametrize("ensemble", ["single", "batch", "deep", "mc"])
def test_evidence_gives_the_numbers_of_its_run(tmp_path, ensemble):
    test = random_predictions(members={"single": 1, "mc": 6}.get(ensemble, 4))
    run = fabricate(tmp_path / "runs", ensemble, test=test, classes=tuple("0123456789"), corrupted=(0.6, 0.8))
    before, after = read_result(run), kept(run, tmp_path / "evidence")
    assert after.summary.clean.pool.ece == pytest.approx(before.summary.clean.pool.ece, rel=1e-5)
    for name in ("accuracy", "gap", "ece", "member_gap", "ca", "cece"):
        np.testing.assert_allclose(after.influence(name), before.influence(name), atol=2e-3)
    np.testing.assert_allclose(after.class_accuracy, before.class_accuracy)
    assert after.seconds == pytest.approx(before.seconds)
    assert after.last_losses == pytest.approx(before.last_losses)
    assert after.missing == ()


def test_probabilities_of_the_pool_are_finer_than_those_of_members(tmp_path):
    run = fabricate(tmp_path / "runs", "deep", test=random_predictions(members=4))
    before, after = read_result(run).top_labels, kept(run, tmp_path / "evidence").top_labels
    error = np.abs(after.confidence - before.confidence)
    assert error[0].max() <= 1 / 4096
    assert 1 / 4096 < error[1:].max() <= 1 / 2048
    np.testing.assert_array_equal(after.prediction, before.prediction)


def test_the_mean_of_mc_samples_stands_for_them(tmp_path):
    run = fabricate(tmp_path / "runs", "mc", test=random_predictions(members=6))
    top = kept(run, tmp_path / "evidence").top_labels
    whole = read_result(run).top_labels
    assert top.confidence.shape == (2, 1000)
    np.testing.assert_allclose(top.hit[1], whole.hit[1:].mean(0), atol=1e-3)


def test_mixed_classes_are_kept(tmp_path):
    run = fabricate(tmp_path / "runs", "batch", "camixup", mixed=MIXED, classes=tuple("abcd"))
    np.testing.assert_allclose(kept(run, tmp_path / "evidence").mixed, [[0, 0.5, 0, 1]] * 2)


def test_evidence_is_a_finished_run(tmp_path):
    run = fabricate(tmp_path / "runs", "deep", corrupted=(0.6, 0.8))
    keep_evidence(read_result(run), tmp_path / "evidence")
    folders = [tmp_path / "new", tmp_path / "evidence"]
    assert locate_run(run.recipe, ["fog"], folders).folder.parent == tmp_path / "evidence"
    assert is_finished(locate_run(run.recipe, ["fog"], folders), ["fog"])
    assert not is_finished(locate_run(run.recipe, ["spatter"], folders), ["spatter"])


def test_claims_come_out_the_same_on_evidence(tmp_path):
    numbers = {"none": (0.8, 0.9), "mixup": (0.85, 0.7), "camixup": (0.86, 0.82)}
    for ensemble in ("batch", "deep"):
        for augment, (accuracy, confidence) in numbers.items():
            run = fabricate(
                tmp_path / "runs",
                ensemble,
                augment,
                accuracy=accuracy,
                confidence=confidence,
                corrupted=(accuracy - 0.3, confidence),
            )
            keep_evidence(read_result(run), tmp_path / "evidence")
    words = []
    for folder in ("runs", "evidence"):
        record = claims_record(judge_claims(read_results(find_runs([tmp_path / folder]))))
        words.append([part["verdict"] for claim in record["claims"] for part in claim["parts"]])
    assert words[0] == words[1]
    assert "shown" in words[0]


def test_a_run_without_an_evaluation_has_no_evidence(tmp_path):
    run = fabricate(tmp_path, "deep")
    run.summary_path.unlink()
    with pytest.raises(InputError, match="not evaluated yet"):
        keep_evidence(read_result(run), tmp_path / "evidence")


def test_damaged_evidence_is_a_run_without_it(tmp_path):
    folder = keep_evidence(read_result(fabricate(tmp_path / "runs", "deep")), tmp_path / "evidence")
    (folder / FILE).write_bytes(b"PK damaged")
    with pytest.raises(InputError, match="cannot be read"):
        read_evidence(folder)
    assert read_result(find_runs([folder])[0]).top_labels is None


def test_numbers_have_six_digits_and_four_under_corruption(tmp_path):
    run = fabricate(tmp_path / "runs", "deep", corrupted=(0.6, 0.8))
    folder = keep_evidence(read_result(run), tmp_path / "evidence")
    text = (folder / "summary.json").read_text()
    assert " " not in text
    before, after = read_result(run).summary, json.loads(text)
    for name, value in after["clean"]["pool"].items():
        assert value == float(f"{getattr(before.clean.pool, name):.6g}")
    for name, value in after["corrupted"]["fog"]["3"]["pool"].items():
        assert value == float(f"{getattr(before.corrupted['fog'][3].pool, name):.4g}")


def test_the_same_evidence_is_the_same_file(tmp_path):
    run = fabricate(tmp_path / "runs", "deep", corrupted=(0.6, 0.8))
    files = [keep_evidence(read_result(run), tmp_path / name) / FILE for name in ("a", "b")]
    assert files[0].read_bytes() == files[1].read_bytes()
    again = tmp_path / "again.npz"
    with np.load(files[0]) as arrays:
        np.savez_compressed(again, **arrays)
    assert files[0].stat().st_size < again.stat().st_size
