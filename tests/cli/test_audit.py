import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calmix
from calmix.auditing import AuditReport
from calmix.cli.reading import as_flags
from calmix.predictions import Predictions, save_predictions
from tests.auditing.ensembles import signals, single
from tests.scenarios import run_command

QUICK = ("--resamples", "50")


@pytest.fixture
def pooled(tmp_path):
    save_predictions(tmp_path / "test.npz", signals(examples=400))
    return tmp_path / "test.npz"


def test_json_stands_alone_on_standard_output(pooled):
    code, out, err = run_command("audit", pooled, "--json", *QUICK)
    assert (code, err) == (0, "")
    numbers = json.loads(out, parse_constant=pytest.fail)
    assert numbers["verdict"] == "under-confident by pooling"
    assert numbers["examples"] == 400
    assert len(numbers["members"]) == 4


def test_the_page_for_a_terminal_has_the_verdict(pooled):
    code, out, _ = run_command("audit", pooled, *QUICK)
    assert code == 0
    assert "Verdict: under-confident by pooling" in out
    for word in ("ECE", "SKCE", "95 % interval", "temperature", "remedy", "hold at once"):
        assert word in out


def test_several_files_are_members_only_on_request(tmp_path):
    predictions = signals(examples=300)
    paths = [tmp_path / f"member{k}.npz" for k in range(4)]
    for k, path in enumerate(paths):
        save_predictions(path, predictions.logits[k], predictions.labels)
    code, _, err = run_command("audit", *paths, "--json", *QUICK)
    assert code == 2
    assert "--members" in err
    assert "calmix compare" in err
    code, out, _ = run_command("audit", *paths, "--members", "--json", *QUICK)
    assert code == 0
    assert len(json.loads(out)["members"]) == 4


def test_fail_if(pooled):
    code, _, err = run_command("audit", pooled, *QUICK, "--fail-if", "ece > 0.05", "--fail-if", "nll > 99")
    assert code == 1
    assert "ece > 0.05 holds" in err
    assert "nll" not in err
    for condition, expected in {
        "verdict != calibrated": 1,
        "verdict == calibrated": 0,
        "abs(gap) > 0.02": 1,
        "pool.gap < -0.02": 0,
        "classes[1].gap > 0.02": 1,
        "members[0].gap > 0.9": 0,
    }.items():
        assert run_command("audit", pooled, *QUICK, "--fail-if", condition)[0] == expected, condition


def test_fail_if_with_json_is_silent_on_standard_error(pooled):
    code, out, err = run_command("audit", pooled, *QUICK, "--json", "--fail-if", "ece > 0.05")
    assert (code, err) == (1, "")
    assert json.loads(out)["failed_conditions"] == ["ece > 0.05"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fail-if", "eec > 0"], "did you mean 'ece'"),
        (["--fail-if", "__import__('os')"], "such as 'ece > 0.05'"),
        (["--fail-if", "ece > nan"], "nan"),
        (["--fail-if", "verdict != calibratd"], "did you mean 'calibrated'"),
        (["--fail-if", "classes[7].gap > 0"], "unknown class in a condition '7'"),
        (["--tolerance", "nan"], "--tolerance must be above 0"),
        (["--tolerance", "-0.1"], "--tolerance"),
        (["--level", "nan"], "--level must be above 0"),
        (["--level", "1"], "--level"),
        (["--resamples", "1"], "--resamples must be at least 2"),
        (["--html", "/no/such/folder/page.html"], "the folder /no/such/folder does not exist"),
        (["--html", "/"], "is a folder"),
        (["--by", "true-clas"], "did you mean 'true-class'"),
        (["--group", "age"], "no group 'age'"),
        (["--group", "age,"], "empty name"),
        (["--label", "y"], "names a column of a table"),
        (["--values", "probs"], "--values is 'probs'"),
        (["--format", "cvs"], "did you mean 'csv'"),
        (["--classes", "a,b"], "2 names for 4 classes"),
    ],
)
def test_wrong_options_are_refused_before_the_work(pooled, monkeypatch, words, message):
    calls = []
    monkeypatch.setattr("calmix.cli.audit.digests", lambda files: calls.append(files))
    code, out, err = run_command("audit", pooled, *words)
    assert (code, out, calls) == (2, "", [])
    assert message in err
    assert "Traceback" not in err


def test_an_input_is_never_overwritten(pooled):
    before = pooled.read_bytes()
    assert run_command("audit", pooled, "--html", pooled)[0] == 2
    assert pooled.read_bytes() == before


def test_inputs_are_named_by_their_digest(pooled, monkeypatch):
    seen = {}

    def spy(predictions, **options):
        seen.update(options)
        raise calmix.InputError("enough")

    monkeypatch.setattr("calmix.cli.audit.judge", spy)
    run_command("audit", pooled, "--tolerance", "0.05", "--by", "true-class")
    assert seen["inputs"] == [
        {"name": str(pooled), "sha256": hashlib.sha256(pooled.read_bytes()).hexdigest()}
    ]
    assert (seen["tolerance"], seen["by"]) == (0.05, "true-class")


@pytest.mark.parametrize(
    ("words", "by"),
    [((), "predicted-class"), (("--group", "age"), "age"), (("--group", "age,sex"), ("age", "sex"))],
)
def test_groups(tmp_path, monkeypatch, words, by):
    seen = {}
    monkeypatch.setattr(
        "calmix.cli.audit.judge", lambda predictions, **options: seen.update(options) or 1 / 0
    )
    predictions = single(examples=40)
    groups = {"age": np.arange(40) % 3, "sex": np.arange(40) % 2}
    save_predictions(tmp_path / "t.npz", predictions.logits, predictions.labels, groups=groups)
    with pytest.raises(ZeroDivisionError):
        calmix.cli.main(["audit", str(tmp_path / "t.npz"), *words])
    assert seen["by"] == by
    code, _, err = run_command("audit", tmp_path / "t.npz", "--group", "age", "--by", "sex")
    assert code == 2
    assert "--by or --group" in err


def test_columns_of_a_table(tmp_path):
    path = tmp_path / "[bold] t.csv"
    rows = "".join(f"k{i},{0.02 * i:.4f},{i % 2},{'ab'[i % 2]},{i}\n" for i in range(1, 49))
    path.write_text("key,p_bad,y,site,weight\n" + rows)
    options = ("--label", "y", "--id", "key", "--positive", "p_bad", "--json", *QUICK)
    code, out, err = run_command("audit", path, *options)
    assert (code, err) == (0, "")
    assert json.loads(out)["examples"] == 48
    code, _, err = run_command("audit", path, "--label", "y", "--values", "probs")
    assert code == 2
    assert "[bold] t.csv" in err
    assert "--classes" in err
    path.write_text("p_0,p_1,age,label\n0.5,0.5,3,1\n")
    code, _, err = run_command("audit", path)
    assert "--ignore age" in err
    path.write_text("p_0,p_1,label\n0.5,0.49,1\n0.5,0.5,0\n")
    assert "--normalise" in run_command("audit", path)[2]


def test_standard_input(pooled, monkeypatch):
    class Standard:
        buffer = io.BytesIO(pooled.read_bytes())

    monkeypatch.setattr(sys, "stdin", Standard())
    code, out, _ = run_command("audit", "-", "--format", "npz", "--json", *QUICK)
    assert code == 0
    assert json.loads(out)["examples"] == 400
    assert run_command("audit", "-")[0] == 2
    assert "only once" in run_command("audit", "-", "-", "--members", "--format", "npz")[2]


def test_files_without_labels_cannot_be_judged(tmp_path):
    save_predictions(tmp_path / "t.npz", Predictions(np.eye(4) * 3))
    code, _, err = run_command("audit", tmp_path / "t.npz")
    assert code == 2
    assert "no labels" in err


def test_class_names_from_a_file(tmp_path):
    save_predictions(tmp_path / "test.npz", single(examples=200))
    (tmp_path / "names.txt").write_text("cat\ndog\nemu\nfox\n")
    words = ("audit", tmp_path / "test.npz", "--class-names", tmp_path / "names.txt", *QUICK)
    assert run_command(*words)[0] == 0
    assert "not both" in run_command(*words, "--classes", "a,b,c,d")[2]
    (tmp_path / "names.txt").write_bytes(b"\xff\xfe")
    code, _, err = run_command(*words)
    assert code == 2
    assert "class names must be UTF-8 text" in err


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


def test_messages_name_options():
    text = "column 'age' is no class: ignore='age' leaves it out, group='age' makes it a group"
    assert (
        as_flags(text) == "column 'age' is no class: --ignore age leaves it out, --group age makes it a group"
    )


@pytest.mark.slow
def test_a_closed_pipe_is_no_failed_condition(pooled):
    environment = {**os.environ, "PYTHONPATH": str(Path(calmix.__file__).parents[1])}
    command = f"set -o pipefail; {sys.executable} -m calmix audit {pooled} --resamples 20 | true"
    code = subprocess.run(["bash", "-c", command], env=environment, capture_output=True).returncode
    assert code in (0, 141)


@pytest.mark.skipif(not hasattr(AuditReport, "to_html"), reason="the page is made elsewhere")
def test_the_page(pooled, tmp_path):
    assert run_command("audit", pooled, *QUICK, "--html", tmp_path / "audit.html")[0] == 0
    page = (tmp_path / "audit.html").read_text()
    assert "under-confident by pooling" in page
    assert "<svg" in page
