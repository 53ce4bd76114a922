import json

import numpy as np
import pytest

from calmix.cli import main
from calmix.predictions import save_predictions
from tests.audit.ensembles import signals, single


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


@pytest.fixture
def pooled(tmp_path):
    made = signals(examples=400)
    save_predictions(tmp_path / "test.npz", made.logits, made.labels)
    return tmp_path / "test.npz"


def test_json_stands_alone_on_standard_output(pooled, capsys):
    assert run("audit", pooled, "--json", "--resamples", "50") == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["verdict"] == "under-confident by pooling"
    assert found["examples"] == 400
    assert len(found["members"]) == 4


def test_the_table_names_the_verdict_the_numbers_and_the_classes(pooled, capsys):
    assert run("audit", pooled, "--resamples", "50") == 0
    out = capsys.readouterr().out
    assert "Verdict: under-confident by pooling" in out
    for word in ("ece", "skce", "95 % interval", "temperature", "CAMixup", "Bonferroni"):
        assert word in out


def test_a_file_for_each_member_is_the_same_ensemble(tmp_path, capsys):
    made = signals(examples=300)
    paths = [tmp_path / f"member{k}.npz" for k in range(4)]
    for k, path in enumerate(paths):
        save_predictions(path, made.logits[k], made.labels)
    save_predictions(tmp_path / "all.npz", made.logits, made.labels)
    assert run("audit", *paths, "--json", "--resamples", "50") == 0
    apart = capsys.readouterr().out
    assert run("audit", tmp_path / "all.npz", "--json", "--resamples", "50") == 0
    assert capsys.readouterr().out == apart


def test_fail_if(pooled, capsys):
    assert run("audit", pooled, "--resamples", "50", "--fail-if", "ece > 0.05", "--fail-if", "nll > 99") == 1
    assert "ece > 0.05 holds" in capsys.readouterr().err
    assert run("audit", pooled, "--resamples", "50", "--fail-if", "pool.gap < 0") == 0
    assert run("audit", pooled, "--resamples", "50", "--fail-if", "eec > 0") == 2
    assert "did you mean 'ece'" in capsys.readouterr().err
    assert run("audit", pooled, "--fail-if", "__import__('os')") == 2


def test_classes_by_name_and_markup_is_only_text(tmp_path, capsys):
    made = single(examples=200)
    save_predictions(tmp_path / "test.npz", made.logits, made.labels)
    (tmp_path / "names.txt").write_text("[red]cat\ndog\n<script>\n[/]\n")
    options = ("--class-names", tmp_path / "names.txt", "--resamples", "50")
    assert run("audit", tmp_path / "test.npz", *options) == 0
    out = capsys.readouterr().out
    assert "[red]cat" in out
    assert "<script>" in out


def test_groups(tmp_path, capsys):
    made = single(examples=200)
    groups = np.arange(200) % 2
    save_predictions(tmp_path / "test.npz", made.logits, made.labels, groups=groups)
    assert run("audit", tmp_path / "test.npz", "--group", "--json", "--resamples", "50") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["by"] == "group"
    assert sorted(row["name"] for row in found["classes"]) == ["0", "1"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.npz", None),
        ("broken.npz", b"PK not a zip"),
        ("table.csv", b"0,1,label\n0.5,0.5,7\n"),
        ("x.pkl", b""),
    ],
)
def test_bad_files_are_one_line_and_exit_code_2(tmp_path, capsys, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert run("audit", tmp_path / name, "--values", "probs", "--json") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert name in captured.err
    assert captured.err.count("\n") == 1


def test_no_file_is_bad_input(capsys):
    assert run("audit") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_page(pooled, tmp_path):
    assert run("audit", pooled, "--resamples", "50", "--html", tmp_path / "audit.html") == 0
    page = (tmp_path / "audit.html").read_text()
    assert "under-confident by pooling" in page
    assert "<svg" in page
