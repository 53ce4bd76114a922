"""The wheel without extras, in an environment of its own: an audit and the demo run there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_works_in_a_clean_environment(tmp_path):
    pytest.importorskip("build")

    def run(*words):
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        environment = {**clean, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            list(map(str, words)), cwd=tmp_path, capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", ROOT)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "env")
    bin_folder = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    run(bin_folder / "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
    draw = np.random.default_rng(0)
    probs = draw.dirichlet(np.ones(3), 400)
    labels = [draw.choice(3, p=row) for row in probs]
    np.savez(tmp_path / "predictions.npz", probs=probs, labels=labels)
    report = json.loads(
        run(bin_folder / "calmix", "audit", "predictions.npz", "--json", "--html", "page.html")
    )
    assert report["verdict"] in ("calibrated", "inconclusive")
    assert "<html" in (tmp_path / "page.html").read_text()
    run(bin_folder / "calmix", "demo", "--scale", "smoke", "--out", "demo", "--jobs", "1")
    assert (tmp_path / "demo" / "report.html").exists()
