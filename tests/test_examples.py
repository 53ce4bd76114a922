"""The examples, shrunk to a second or two; as they are, they take less than a minute."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ("own_convnet", "table", "text")


@pytest.mark.parametrize("name", NAMES)
def test_an_example_in_small(tmp_path, name, capsys):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run = module.main(tmp_path / "runs", epochs=1, train_size=60, members=2)
    assert run.summary.clean.examples > 30
    assert "accuracy" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("name", "accuracy"), [("own_convnet", 0.7), ("table", 0.9), ("text", 0.3)])
def test_an_example_as_it_is(tmp_path, name, accuracy):
    words = [sys.executable, str(EXAMPLES / f"{name}.py"), str(tmp_path / "runs")]
    out = subprocess.run(words, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert float(out.split("%")[0].split()[-1]) / 100 > accuracy
