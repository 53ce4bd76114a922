"""Every example runs as a script, and the loop of `own_loop.py` is right for all mixers and ensembles."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import calmix

FOLDER = Path(__file__).parents[1] / "examples"
LIBRARIES = {
    "huggingface_trainer": ("transformers", "accelerate", "datasets"),
    "lightning_loop": ("lightning", "torchmetrics"),
    "torchmetrics_collection": ("torchmetrics",),
}
OWN_TEST = ("audit_many_files",)  # which takes files: tests/examples
MEMBERS, EPOCHS = 2, 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in OWN_TEST)
)
def test_the_script_runs(name, tmp_path):
    for library in LIBRARIES.get(name, ()):
        pytest.importorskip(library)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(calmix.__file__).parents[1])}
    command = [sys.executable, str(FOLDER / f"{name}.py")]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip()
    assert "nan" not in done.stdout
    assert not {path.name for path in tmp_path.iterdir()} - {"runs", "digits.npz"}, (
        "an example left files behind"
    )


@pytest.mark.parametrize("name", ["own_convnet", "table", "text"])
def test_an_example_of_runs_in_small(tmp_path, name, capsys):
    run = load(name).main(tmp_path / "runs", epochs=1, train_size=60, members=2)
    assert run.summary.clean.examples > 30
    assert "accuracy" in capsys.readouterr().out


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def image(x):
    return x.view(-1, 1, 8, 8)


def mixers(members):
    return {
        "Mixup": calmix.Mixup(10, members=members),
        "CutMix": calmix.CutMix(10, members=members),
        "RegMixup": calmix.RegMixup(10, members=members),
        "MixupMP": calmix.MixupMP(10, members=members),
        "CAMixup": calmix.CAMixup(10, members=members),
        "ForgettingMixup": calmix.ForgettingMixup(10, 200, members=members),
    }


@pytest.mark.parametrize("mixer", mixers(1))
@pytest.mark.parametrize("ensemble", ["batch", "mc"])
def test_one_loop_for_every_mixer_and_ensemble(mixer, ensemble):
    loop = load("own_loop")
    (x, y), val, test = loop.load()
    torch.manual_seed(0)
    network = loop.make_network()
    if mixer == "CutMix":  # which cuts images
        network = torch.nn.Sequential(torch.nn.Flatten(), *network)
        x, val, test = image(x), (image(val[0]), val[1]), (image(test[0]), test[1])
    members = MEMBERS if ensemble == "batch" else 1
    if ensemble == "batch":
        model = calmix.BatchEnsemble(network, members)
    else:
        model = calmix.MCDropout(network, samples=3)
    mixing = mixers(members)[mixer]
    loop.fit(model, mixing, (x[:200], y[:200]), val, epochs=EPOCHS)
    accuracy, ece = loop.evaluate(model, test)
    assert len(mixing.history) == EPOCHS
    assert accuracy > 0.6
    assert 0 <= ece < 0.5


@pytest.mark.parametrize("mixer", ["CAMixup", "ForgettingMixup", "MixupMP"])
def test_the_deep_ensemble_in_a_loop(mixer):
    loop = load("deep_ensemble_own_loop")
    (x, y), val, test = loop.load()
    torch.manual_seed(0)
    model = calmix.DeepEnsemble([loop.make_network() for _ in range(loop.MEMBERS)])
    mixing = mixers(loop.MEMBERS)[mixer]
    loop.fit(model, mixing, (x[:200], y[:200]), val, epochs=EPOCHS)
    with torch.no_grad():
        accuracy = calmix.metrics.accuracy(calmix.pool(model(test[0])), test[1])
    assert len(mixing.history) == EPOCHS
    assert accuracy > 0.6
