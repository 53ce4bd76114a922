import json

import numpy as np
import pytest

from calmix.predictions import save_predictions
from tests.auditing.ensembles import signals, single
from tests.scenarios import run_command

QUICK = ("--resamples", "50")


@pytest.fixture
def pooled(tmp_path):
    predictions = signals(examples=400)
    save_predictions(tmp_path / "test.npz", predictions.logits, predictions.labels)
    return tmp_path / "test.npz"


def test_json_stands_alone_on_standard_output(pooled):
    code, out, err = run_command("audit", pooled, "--json", *QUICK)
    assert (code, err) == (0, "")
    numbers = json.loads(out, parse_constant=pytest.fail)
    assert numbers["verdict"] == "under-confident by pooling"
    assert numbers["examples"] == 400
    assert len(numbers["members"]) == 4


def test_the_table_names_the_verdict_the_numbers_and_the_classes(pooled):
    code, out, _ = run_command("audit", pooled, *QUICK)
    assert code == 0
    assert "Verdict: under-confident by pooling" in out
    for word in ("ECE", "SKCE", "95 % interval", "temperature", "remedy", "hold at once"):
        assert word in out


def test_a_file_for_each_member_is_the_same_ensemble(tmp_path):
    predictions = signals(examples=300)
    paths = [tmp_path / f"member{k}.npz" for k in range(4)]
    for k, path in enumerate(paths):
        save_predictions(path, predictions.logits[k], predictions.labels)
    save_predictions(tmp_path / "all.npz", predictions.logits, predictions.labels)
    code, apart, _ = run_command("audit", *paths, "--json", *QUICK)
    assert code == 0
    code, together, _ = run_command("audit", tmp_path / "all.npz", "--json", *QUICK)
    assert (code, together) == (0, apart)


def test_fail_if(pooled):
    code, _, err = run_command("audit", pooled, *QUICK, "--fail-if", "ece > 0.05", "--fail-if", "nll > 99")
    assert code == 1
    assert "ece > 0.05 holds" in err
    assert "nll" not in err
    assert run_command("audit", pooled, *QUICK, "--fail-if", "pool.gap < 0")[0] == 0
    code, _, err = run_command("audit", pooled, *QUICK, "--fail-if", "eec > 0")
    assert code == 2
    assert "did you mean 'ece'" in err
    assert run_command("audit", pooled, "--fail-if", "__import__('os')")[0] == 2


def test_classes_by_name_and_markup_is_only_text(tmp_path):
    predictions = single(examples=200)
    save_predictions(tmp_path / "test.npz", predictions.logits, predictions.labels)
    (tmp_path / "names.txt").write_text("[red]cat\ndog\n<script>\n[/]\n")
    words = ("audit", tmp_path / "test.npz", "--class-names", tmp_path / "names.txt", *QUICK)
    code, out, _ = run_command(*words)
    assert code == 0
    assert "[red]cat" in out
    assert "<script>" in out
    (tmp_path / "names.txt").write_bytes(b"\xff\xfe")
    code, _, err = run_command(*words)
    assert code == 2
    assert "class names must be UTF-8 text" in err


def test_groups(tmp_path):
    predictions = single(examples=200)
    groups = np.arange(200) % 2
    save_predictions(tmp_path / "test.npz", predictions.logits, predictions.labels, groups=groups)
    code, out, _ = run_command("audit", tmp_path / "test.npz", "--group", "--json", *QUICK)
    assert code == 0
    numbers = json.loads(out)
    assert numbers["by"] == ["predicted-class", "group"]
    assert sorted(row["name"] for row in numbers["groups"]) == ["0", "1"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.npz", None),
        ("broken.npz", b"PK not a zip"),
        ("table.csv", b"0,1,label\n0.5,0.5,7\n"),
        ("x.pkl", b""),
    ],
)
def test_bad_files_are_one_line_and_exit_code_2(tmp_path, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    code, out, err = run_command("audit", tmp_path / name, "--values", "probs", "--json")
    assert (code, out) == (2, "")
    assert name in err
    assert err.count("\n") == 1


def test_no_file_is_bad_input():
    code, out, err = run_command("audit")
    assert (code, out) == (2, "")
    assert "Traceback" not in err


def test_the_page(pooled, tmp_path):
    assert run_command("audit", pooled, *QUICK, "--html", tmp_path / "audit.html")[0] == 0
    page = (tmp_path / "audit.html").read_text()
    assert "under-confident by pooling" in page
    assert "<svg" in page
