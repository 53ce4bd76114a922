import csv
import io
import json

from tests.fabricate import fabricate
from tests.scenarios import run_command


def test_the_numbers_come_out_in_every_format(tmp_path):
    for seed, accuracy in enumerate((0.8, 0.9)):
        fabricate(tmp_path, "deep", "mixup", accuracy=accuracy, confidence=0.7, seed=seed)
    words = ("table", tmp_path, "--metrics", "accuracy,ece", "--format")
    code, text, _ = run_command(*words, "csv")
    assert code == 0
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["augment"], row["runs"]) == ("mixup", "2")
    assert round(float(row["accuracy"]), 6) == 0.85
    assert round(float(row["accuracy_sd"]), 4) == 0.0707
    _, text, err = run_command(*words, "json")
    assert json.loads(text)["rows"][0]["ece"] == float(row["ece"])
    assert err == ""
    _, text, _ = run_command(*words, "latex")
    assert r"85.00 $\pm$ 7.07" in text
    _, text, _ = run_command(*words, "md", "--each", "--out", tmp_path / "table.md")
    assert text == ""
    assert len((tmp_path / "table.md").read_text().splitlines()) == 2 + 2


def test_bad_metrics_and_unevaluated_runs_are_refused(tmp_path):
    run = fabricate(tmp_path, "deep")
    code, _, err = run_command("table", tmp_path, "--metrics", "eec")
    assert code == 2
    assert "did you mean 'ece'" in err
    run.summary_path.unlink()
    code, _, err = run_command("table", tmp_path)
    assert code == 2
    assert "none of 1 runs is evaluated yet" in err
