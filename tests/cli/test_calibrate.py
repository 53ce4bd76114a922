import json

import numpy as np
import pytest
import torch

from calmix import load_predictions, metrics, pool, save_predictions
from calmix.calibrate import fit_temperature
from tests.auditing.ensembles import signals
from tests.scenarios import run_command


@pytest.fixture
def folder(tmp_path):
    for name, seed in (("validation", 1), ("test", 2)):
        predictions = signals(examples=500, seed=seed)
        groups, ids = predictions.labels.numpy() % 2, np.arange(500)
        path = tmp_path / f"{name}.npz"
        save_predictions(path, predictions.logits, predictions.labels, ids=ids, groups=groups)
    return tmp_path


def calibrate(folder, *words):
    files = ("--validation", folder / "validation.npz", "--test", folder / "test.npz")
    return run_command("calibrate", *files, "--out", folder / "out.npz", *words)


@pytest.mark.parametrize("order", ["pool", "member", "each"])
def test_what_is_written_is_what_the_temperature_gives(folder, order):
    code, out, err = calibrate(folder, "--order", order, "--json")
    assert (code, err) == (0, "")
    numbers = json.loads(out)
    validation, test = (load_predictions(folder / f"{name}.npz") for name in ("validation", "test"))
    fitted = fit_temperature(validation.logits, validation.labels, order=order)
    written = load_predictions(folder / "out.npz")
    assert written.logits.shape == (1, 500, 4)
    torch.testing.assert_close(pool(written.logits), fitted.apply(test.logits))
    assert written.groups.tolist() == test.groups.tolist()
    assert written.ids.tolist() == test.ids.tolist()
    assert numbers["temperature"] == pytest.approx(np.asarray(fitted.temperature).tolist())
    assert numbers["before"]["ece"] == pytest.approx(metrics.ece(pool(test.logits), test.labels))
    assert numbers["after"]["ece"] == pytest.approx(metrics.ece(pool(written.logits), test.labels), abs=1e-6)


def test_before_and_after_for_a_reader(folder):
    code, out, _ = calibrate(folder)
    assert code == 0
    for word in ("before", "after", "ece", "temperature (pool)", "out.npz"):
        assert word in out


def test_another_ensemble_is_refused(folder):
    predictions = signals(members=2, examples=50)
    save_predictions(folder / "test.npz", predictions.logits, predictions.labels)
    code, _, err = calibrate(folder)
    assert code == 2
    assert "4 members and 4 classes, --test 2 members" in err
    assert not (folder / "out.npz").exists()
