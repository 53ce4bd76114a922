import json

import pytest

from calmix import Predictions, save_predictions
from tests.auditing.ensembles import scaled, signals
from tests.scenarios import run_command

QUICK = ("--resamples", "100")


@pytest.fixture
def files(tmp_path):
    a = signals(members=1, examples=500)
    save_predictions(tmp_path / "a.npz", a)
    save_predictions(tmp_path / "b.csv", scaled(a, 4))
    return tmp_path / "a.npz", tmp_path / "b.csv"


def test_json_stands_alone(files):
    code, out, err = run_command("compare", *files, "--json", *QUICK)
    assert (code, err) == (0, "")
    numbers = json.loads(out)
    assert numbers["metrics"]["nll"]["better"] == "a"
    assert numbers["names"] == [str(path) for path in files]


def test_the_page(files):
    code, out, err = run_command("compare", *files, *QUICK)
    assert (code, err) == (0, "")
    assert "a is better in" in out
    assert max(map(len, out.splitlines()[3:])) <= 120


def test_a_page_of_both_side_by_side(files, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = run_command("compare", *files, *QUICK, "--html", page, "--json")
    assert (code, err) == (0, "")
    json.loads(out)
    text = page.read_text()
    assert text.count('class="verdict ') == 2
    assert all(str(path) in text for path in files)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--html", "nowhere/page.html"], "does not exist"),
        (["--by-id"], "no ids"),
        (["--by-id", "--unpaired"], "not both"),
        (["--level", "nan"], "--level"),
        (["--resamples", "0"], "--resamples"),
        (["--values", "probs"], "--values is 'probs'"),
    ],
)
def test_wrong_options(files, words, message):
    code, out, err = run_command("compare", *files, *words)
    assert (code, out) == (2, "")
    assert message in err


def test_different_examples_name_the_options(files, tmp_path):
    other = signals(members=1, examples=400, seed=9)
    save_predictions(tmp_path / "c.npz", Predictions(other.logits, other.labels))
    code, _, err = run_command("compare", files[0], tmp_path / "c.npz")
    assert code == 2
    assert "--by-id matches them by id, --unpaired compares different examples" in err
    code, out, _ = run_command("compare", files[0], tmp_path / "c.npz", "--unpaired", *QUICK)
    assert code == 0
    assert "500 and 400 examples, unpaired" in out


def test_one_file_is_not_enough(files):
    assert run_command("compare", files[0])[0] == 2
