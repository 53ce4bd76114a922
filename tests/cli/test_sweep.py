import pytest

from calmix.cli.sweep import alternatives, expand
from calmix.runs.presets import preset
from tests.scenarios import run_command


def test_commas_make_a_grid():
    words = ["--ensemble", "deep", "--augment", "mixup", "--alpha=0.2,1", "--members", "1,2"]
    recipes, swept = expand(words, seeds=2)
    assert swept == ["alpha", "members"]
    assert len(recipes) == 8
    assert recipes[0] == preset("digits", "deep", "mixup").replace(alpha=0.2, members=1)


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--augment", "none,mixup", [["none"], ["mixup"]]),
        ("--decay-epochs", "80 160;100", [["80", "160"], ["100"]]),
        ("--network-options", '{"width": 8, "depth": 10}', [['{"width": 8, "depth": 10}']]),
        ("--network-options", '{"width": 8};{"width": 16}', [['{"width": 8}'], ['{"width": 16}']]),
        ("--recipe", "a,b.json", [["a,b.json"]]),
    ],
)
def test_values_keep_their_own_commas(flag, value, expected):
    assert alternatives(flag, [value]) == expected


def test_a_dry_run_lists_what_is_trained(tmp_path):
    words = ("--ensemble", "deep", "--members", "2,4", "--scale", "smoke", "--dry-run", "--out", tmp_path)
    code, out, _ = run_command("sweep", *words)
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == 2
    assert sum("the first members of" in line for line in lines) == 1
    assert run_command("sweep", "--memebrs", "2,4", "--dry-run")[0] == 2


@pytest.mark.slow
def test_a_sweep_writes_a_table_and_curves(tmp_path):
    small = ("--epochs", "1", "--train-size", "40", "--width", "4", "--test-size", "40")
    words = (
        "--ensemble",
        "deep",
        "--members",
        "1,2",
        "--scale",
        "smoke",
        "--seeds",
        "2",
        "--jobs",
        "1",
        *small,
    )
    where = ("--out", tmp_path / "runs", "--render", tmp_path / "page", "--figures-format", "svg,pdf")
    code, out, err = run_command("sweep", *words, *where)
    assert code == 0, err
    assert "written:" in out
    names = {path.name for path in (tmp_path / "page" / "figures").iterdir()}
    assert {"ece-members.svg", "ece-members.pdf", "gap-members.svg"} <= names
    text = (tmp_path / "page" / "sweep.md").read_text()
    assert "digits, smoke scale, 2 seeds" in text
    assert (tmp_path / "page" / "sweep.csv").read_text().count("clean,pool") == 4
