import functools
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from calmix import metrics, pool, save_predictions
from tests.auditing.ensembles import signals

PATH = Path(__file__).parents[2] / "examples" / "audit_many_files.py"


def example():
    spec = importlib.util.spec_from_file_location("audit_many_files", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def files(tmp_path):
    pytest.importorskip("pyarrow")
    whole = signals(members=1, examples=250)
    for k in range(3):
        save_predictions(tmp_path / f"part{k}.parquet", whole.take(slice(100 * k, 100 * (k + 1))))
    return whole, [str(path) for path in sorted(tmp_path.glob("*.parquet"))]


def check(scores, whole):
    probs = pool(whole.logits.double())
    assert scores.examples == 250
    for name in ("accuracy", "nll", "brier", "ece", "sce", "gap"):
        np.testing.assert_allclose(
            getattr(scores, name), metrics.SCALARS[name](probs, whole.labels), rtol=1e-9
        )


def test_sums_of_files_merge_exactly(files):
    whole, paths = files
    parts = [example().summarise(path, None, rows=30) for path in paths]
    check(functools.reduce(lambda total, part: total.merge(part), parts).compute(), whole)


@pytest.mark.slow
def test_with_ray(files):
    ray = pytest.importorskip("ray")
    whole, paths = files
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        check(example().summarise_all(paths, None), whole)
    finally:
        ray.shutdown()
