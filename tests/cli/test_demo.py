import pytest

from calmix.runs.folder import find_runs
from tests.scenarios import run_command


@pytest.mark.slow
def test_the_demo_at_smoke_scale(tmp_path):
    code, out, err = run_command("demo", "--scale", "smoke", "--out", tmp_path, "--jobs", 2)
    assert code == 0, err
    assert len(find_runs([tmp_path])) == 12
    for word in ("BatchEnsemble", "MC-dropout", "deep ensemble", "camixup", "gap of", "seed 0"):
        assert word in out
    page = (tmp_path / "report.html").read_text()
    assert page.rstrip().endswith("</html>")
    assert page.index('id="lead">Mixup ') < page.index("<h2>Runs</h2>")
    assert "\nMixup " in out
    assert list((tmp_path / "figures").glob("*.pdf"))
    stamps = {run: run.model_path.stat().st_mtime_ns for run in find_runs([tmp_path])}
    assert run_command("demo", "--scale", "smoke", "--out", tmp_path)[0] == 0
    assert {run: run.model_path.stat().st_mtime_ns for run in find_runs([tmp_path])} == stamps
