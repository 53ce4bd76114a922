import json

import numpy as np
import pytest
import torch

from calmix import load_predictions, metrics, pool, save_predictions
from calmix.calibrate import fit_temperature
from calmix.cli import main
from tests.audit.ensembles import signals


@pytest.fixture
def folder(tmp_path):
    for name, seed in (("validation", 1), ("test", 2)):
        made = signals(examples=500, seed=seed)
        groups, ids = made.labels.numpy() % 2, np.arange(500)
        save_predictions(tmp_path / f"{name}.npz", made.logits, made.labels, ids=ids, groups=groups)
    return tmp_path


def run(folder, *arguments):
    files = ["--validation", folder / "validation.npz", "--test", folder / "test.npz"]
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in ("calibrate", *files, "--out", folder / "out.npz", *arguments)])
    return ended.value.code


@pytest.mark.parametrize("order", ["pool", "member", "each"])
def test_what_is_written_is_what_the_temperature_makes(folder, capsys, order):
    assert run(folder, "--order", order, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    validation, test = (load_predictions(folder / f"{name}.npz") for name in ("validation", "test"))
    fitted = fit_temperature(validation.logits, validation.labels, order=order)
    written = load_predictions(folder / "out.npz")
    assert written.logits.shape == (1, 500, 4)
    torch.testing.assert_close(pool(written.logits), fitted.apply(test.logits))
    assert written.groups.tolist() == test.groups.tolist()
    assert written.ids.tolist() == test.ids.tolist()
    assert found["temperature"] == pytest.approx(np.asarray(fitted.temperature).tolist())
    assert found["before"]["ece"] == pytest.approx(metrics.ece(pool(test.logits), test.labels))
    assert found["after"]["ece"] == pytest.approx(metrics.ece(pool(written.logits), test.labels), abs=1e-6)


def test_before_and_after_for_a_reader(folder, capsys):
    assert run(folder) == 0
    out = capsys.readouterr().out
    for word in ("before", "after", "ece", "temperature (pool)", "out.npz"):
        assert word in out


def test_another_ensemble_is_refused(folder, capsys):
    made = signals(members=2, examples=50)
    save_predictions(folder / "test.npz", made.logits, made.labels)
    assert run(folder) == 2
    assert "4 members and 4 classes, --test 2 members" in capsys.readouterr().err
    assert not (folder / "out.npz").exists()
