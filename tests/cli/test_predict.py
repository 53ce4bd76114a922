import csv

import numpy as np
import pytest
import torch

from calmix import data, load_predictions, pool
from calmix.calibrate import Temperature
from calmix.runs.build import load_splits
from calmix.runs.presets import preset
from tests.scenarios import run_command, tiny, trained


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = trained(tiny("deep", epochs=1, test_size=30), tmp_path_factory.mktemp("runs"))
    assert run_command("evaluate", run.folder)[0] == 0
    return run


@pytest.fixture(scope="module")
def images(run):
    """The run's own test images, uint8 (N, H, W, C), and their labels."""
    part = load_splits(run.recipe, None).test
    (rows,) = part.read([torch.arange(len(part))])
    return rows.permute(0, 2, 3, 1).contiguous().numpy(), part.labels.numpy()


def predict(run, folder, *words, out="probs.npz", **arrays):
    np.savez(folder / "new.npz", **arrays)
    return run_command("predict", run.folder, folder / "new.npz", "--out", folder / out, *words)


def test_the_probabilities_are_those_of_the_evaluation(run, images, tmp_path):
    x, labels = images
    code, out, err = predict(run, tmp_path, x=x, labels=labels)
    assert code == 0, err
    assert out == f"written: {tmp_path / 'probs.npz'}\n"
    with np.load(tmp_path / "probs.npz") as file:
        expected = pool(run.predictions("test").logits.double()).numpy()
        np.testing.assert_allclose(file["probs"], expected, atol=1e-6)
        assert file["classes"].tolist() == list(run.summary.classes)
        assert file["labels"].tolist() == labels.tolist()
    again = load_predictions(tmp_path / "probs.npz")
    assert again.logits.shape == (1, 30, 10)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.npz", "probs.npz"]


def test_floats_as_the_network_sees_them_and_small_batches(run, images, tmp_path):
    x, _ = images
    floats = (x / 255).transpose(0, 3, 1, 2).astype(np.float64)
    assert predict(run, tmp_path, "--batch-size", 7, x=floats)[0] == 0
    expected = pool(run.predictions("test").logits.double()).numpy()
    with np.load(tmp_path / "probs.npz") as file:
        np.testing.assert_allclose(file["probs"], expected, atol=1e-5)
    code, _, err = predict(run, tmp_path, x=255 * floats)
    assert code == 0
    assert "x has values outside 0..1" in err


def test_calibrated_with_the_temperature_of_the_summary_as_csv(run, images, tmp_path):
    x, labels = images
    ids = np.array([f"image {k}" for k in range(len(x))])
    assert predict(run, tmp_path, "--calibrated", out="p.csv", x=x, labels=labels, ids=ids)[0] == 0
    with open(tmp_path / "p.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["label", "id", *run.summary.classes]
    assert [row[1] for row in rows] == ids.tolist()
    fitted = Temperature(temperature=run.summary.temperature, order="pool", nll_before=None, nll_after=None)
    expected = fitted(run.predictions("test").logits.double()).numpy()
    np.testing.assert_allclose(np.array([row[2:] for row in rows], dtype=float), expected, atol=1e-6)
    plain = pool(run.predictions("test").logits.double()).numpy()
    assert np.abs(expected - plain).max() > 1e-4


def test_the_same_command_of_mc_dropout_gives_the_same(tmp_path):
    run = trained(tiny("mc", epochs=1, test_size=20), tmp_path)
    part = load_splits(run.recipe, None).test
    (rows,) = part.read([torch.arange(len(part))])
    x, both = rows.permute(0, 2, 3, 1).numpy(), []
    for _ in range(2):
        assert predict(run, tmp_path, x=x)[0] == 0
        both.append(np.load(tmp_path / "probs.npz")["probs"])
    np.testing.assert_array_equal(*both)
    code, _, err = predict(run, tmp_path, "--calibrated", x=x)  # not evaluated
    assert code == 2
    assert "run `calmix evaluate` on it first" in err


def test_what_does_not_match_is_named(run, images, tmp_path):
    x, _ = images
    for arrays, message in (
        ({"y": x}, "has no array \"x\", but 'y'"),
        ({"x": x[:, :4]}, "x is uint8 (30, 4, 8, 1); this run's network takes uint8 (N, 8, 8, 1) or floats"),
        ({"x": x.astype(np.int64)}, "x is int64"),
        ({"x": x / 255}, "x is float64 (30, 8, 8, 1)"),
        ({"x": x[:0]}, "there is no input in it"),
        ({"x": x, "labels": np.zeros(3)}, "labels has shape (3,)"),
        ({"x": np.full((2, 1, 8, 8), np.nan)}, "x[0] is not finite"),
        ({"x": np.array([None])}, "cannot be read"),
    ):
        code, out, err = predict(run, tmp_path, **arrays)
        assert (code, out) == (2, "")
        assert message in err
        assert not (tmp_path / "probs.npz").exists()
    for words, message in (
        ((run.folder, tmp_path / "missing.npz"), "cannot be read"),
        ((run.folder, tmp_path / "new.txt"), "must be an .npz file"),
        ((tmp_path, tmp_path / "new.npz"), "is no run"),
        ((run.folder, tmp_path / "new.npz", "--out", "p.txt"), "--out must end in .npz or .csv"),
        ((run.folder, tmp_path / "new.npz", "--out", tmp_path / "no" / "p.csv"), "no such folder"),
    ):
        code, _, err = run_command("predict", *words)
        assert code == 2
        assert message in err


def test_vectors(tmp_path):
    run = trained(preset("clusters", "single", "none", scale="smoke").replace(epochs=1), tmp_path)
    inputs = data.load("clusters").test.inputs[:7].numpy()
    code, _, err = predict(run, tmp_path, x=inputs)
    assert code == 0, err
    assert np.load(tmp_path / "probs.npz")["probs"].shape[0] == 7
    code, _, err = predict(run, tmp_path, x=inputs[:, :1])
    assert code == 2
    assert "this run's network takes floats (N, 2)" in err
