import json

import numpy as np
import pytest
import torch

from calmix import Predictions, load_calibrator, load_predictions, metrics, pool, save_predictions
from calmix.calibrate import fit_calibrator
from tests.auditing.ensembles import signals
from tests.scenarios import run_command

CLASSES = ("cat", "dog", "emu", "fox")


def predictions(seed, *, labels=True, examples=500):
    drawn = signals(examples=examples, seed=seed)
    return Predictions(
        drawn.logits,
        drawn.labels if labels else None,
        ids=np.arange(examples) + 1000 * seed,
        groups={"age": np.arange(examples) % 2},
        classes=CLASSES,
    )


@pytest.fixture
def folder(tmp_path):
    save_predictions(tmp_path / "val.npz", predictions(1))
    save_predictions(tmp_path / "test.npz", predictions(2))
    return tmp_path


def fit(folder, *words):
    return run_command("calibrate", "fit", folder / "val.npz", "--out", folder / "cal.json", *words)


def apply(folder, name, out, *words):
    files = (folder / "cal.json", folder / name)
    return run_command("calibrate", "apply", *files, "--out", folder / out, *words)


@pytest.mark.parametrize(
    ("method", "order"),
    [
        ("temperature", "pool"),
        ("temperature", "each"),
        ("joint", "pool"),
        ("vector", "pool"),
        ("isotonic", "pool"),
    ],
)
def test_what_is_written_is_what_the_calibrator_gives(folder, method, order):
    code, out, err = fit(folder, "--method", method, "--order", order, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["method"] == method
    val, test = (load_predictions(folder / f"{name}.npz") for name in ("val", "test"))
    fitted = fit_calibrator(val.logits, val.labels, method=method, order=order)
    assert load_calibrator(folder / "cal.json").numbers() == fitted.numbers()
    code, out, err = apply(folder, "test.npz", "out.npz", "--json")
    assert (code, err) == (0, "")
    numbers, written = json.loads(out), load_predictions(folder / "out.npz")
    expected = fitted(test.logits.double())
    torch.testing.assert_close(written.logits[0].exp(), expected.float())
    assert written.ids.tolist() == test.ids.tolist()
    assert written.groups["age"].tolist() == test.groups["age"].tolist()
    assert written.classes == CLASSES
    assert numbers["overlap"] is None
    assert numbers["before"]["ece"] == pytest.approx(metrics.ece(pool(test.logits.double()), test.labels))
    assert numbers["after"]["ece"] == pytest.approx(metrics.ece(expected, test.labels))


def test_auto_takes_what_cross_validation_recommends(folder):
    code, out, err = fit(folder, "--json")
    assert (code, err) == (0, "")
    numbers = json.loads(out)
    tried = numbers["cross_validated_nll"]
    assert numbers["method"] != "nothing"  # pools of calibrated members are under-confident
    assert tried[numbers["method"]] < tried["nothing"]
    code, out, _ = fit(folder)
    assert "<- chosen" in out


def test_auto_does_nothing_where_nothing_helps(tmp_path):
    drawn = signals(members=1, examples=800, seed=3)
    save_predictions(tmp_path / "val.npz", drawn)
    code, out, _ = fit(tmp_path, "--json")
    assert code == 0
    assert json.loads(out)["method"] == "nothing"
    save_predictions(tmp_path / "test.npz", signals(members=1, examples=50, seed=4))
    apply(tmp_path, "test.npz", "out.npz")
    before, after = (load_predictions(tmp_path / name) for name in ("test.npz", "out.npz"))
    torch.testing.assert_close(before.logits.softmax(2), after.logits.softmax(2))


@pytest.mark.parametrize("suffix", ["npz", "csv", "tsv.gz", "parquet", "jsonl"])
def test_files_without_labels_in_every_format(folder, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    save_predictions(folder / f"new.{suffix}", predictions(5, labels=False, examples=40))
    fit(folder, "--method", "temperature")
    code, out, _ = apply(folder, f"new.{suffix}", f"new_calibrated.{suffix}")
    assert code == 0
    assert "before" not in out
    written = load_predictions(folder / f"new_calibrated.{suffix}")
    assert written.labels is None
    assert written.logits.shape == (1, 40, 4)
    fitted = load_calibrator(folder / "cal.json")
    expected = fitted(predictions(5, examples=40).logits.double())
    torch.testing.assert_close(written.logits[0].exp().double(), expected, atol=1e-6, rtol=1e-5)


def test_examples_of_the_fit_are_noticed(folder):
    fit(folder, "--method", "temperature")
    whole, other = predictions(1), predictions(2)
    mixed = Predictions(
        torch.cat([whole.logits[:, :100], other.logits[:, :300]], 1),
        torch.cat([whole.labels[:100], other.labels[:300]]),
        classes=CLASSES,
    )
    save_predictions(folder / "mixed.npz", mixed)
    code, _, err = apply(folder, "mixed.npz", "out.npz")
    assert code == 0
    assert "about 25 % of these examples were in the data of the fit" in err
    save_predictions(folder / "ids.npz", Predictions(other.logits, ids=whole.ids, classes=CLASSES))
    code, out, err = apply(folder, "ids.npz", "out.npz", "--json")
    assert (code, err) == (0, "")
    assert "100 % of the ids" in json.loads(out)["overlap"]


def test_before_and_after_for_a_reader(folder):
    fit(folder)
    code, out, err = apply(folder, "test.npz", "out[red].npz")
    assert (code, err) == (0, "")
    for word in ("before", "after", "ece", "out[red].npz"):
        assert word in out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: Predictions(p.logits[:2], p.labels), "fitted for 4 members, but the predictions have 2"),
        (lambda p: Predictions(p.logits[..., :3]), "fitted for 4 classes"),
        (lambda p: Predictions(p.logits, classes=CLASSES[::-1]), "another order"),
    ],
)
def test_another_model_is_refused(folder, change, message):
    fit(folder, "--method", "temperature")
    save_predictions(folder / "test.npz", change(predictions(2)))
    code, _, err = apply(folder, "test.npz", "out.npz")
    assert code == 2
    assert message in err
    assert not (folder / "out.npz").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fti",), "did you mean 'fit'"),
        (("fit", "missing.npz", "--out", "cal.json"), "no such file"),
        (("fit", "val.npz", "--out", "no/cal.json"), "does not exist"),
        (("fit", "val.npz", "--out", "val.npz"), "overwrite"),
        (("fit", "val.npz", "--out", "cal.json", "--method", "beta"), "beta is for 2"),
        (
            ("fit", "val.npz", "--out", "cal.json", "--method", "joint", "--order", "each"),
            "--method temperature",
        ),
        (("fit", "new.npz", "--out", "cal.json"), "no labels"),
        (("fit", "val.npz", "test.npz", "--out", "cal.json"), "--members"),
        (("apply", "val.npz", "test.npz", "--out", "out.npz"), "cannot be read as JSON"),
        (("apply", "cal.json", "test.npz", "--out", "out.txt"), "suffix"),
        (("apply", "broken.json", "test.npz", "--out", "out.npz"), "fitted_on cannot be read"),
    ],
)
def test_wrong_arguments(folder, monkeypatch, words, message):
    monkeypatch.chdir(folder)
    save_predictions("new.npz", predictions(5, labels=False))
    fit(folder, "--method", "temperature")
    content = json.loads((folder / "cal.json").read_text())
    (folder / "broken.json").write_text(json.dumps(content | {"fitted_on": {"members": 4}}))
    (folder / "cal.json").write_text(json.dumps(content))
    code, out, err = run_command("calibrate", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_usage():
    assert run_command("calibrate")[0] == 2
    code, out, _ = run_command("calibrate", "--help")
    assert code == 0
    assert "calibrate apply" in out
