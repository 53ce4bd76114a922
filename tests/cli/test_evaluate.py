import json
import shutil

import pytest

from calmix.corruptions import AUTHORS_CIFAR100, CORRUPTIONS
from calmix.runs.folder import open_run
from tests.fabricate import fabricate
from tests.scenarios import run_command, tiny, trained


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained(tiny("deep", epochs=1, test_size=10, corruption_size=5), tmp_path_factory.mktemp("runs"))


@pytest.fixture
def run(folder, tmp_path):
    return open_run(shutil.copytree(folder.folder, tmp_path / folder.folder.name))


def test_a_table_for_readers(run):
    code, out, _ = run_command("evaluate", run.folder)
    assert code == 0
    summary = run.summary
    assert f"{100 * summary.clean.pool.ece:.2f} %" in out
    assert f"with temperature {summary.temperature:.3f}" in out
    assert "corrupted" not in out


def test_json_for_programs(run):
    code, out, err = run_command("evaluate", run.folder.parent, "--json")
    assert (code, err) == (0, "")
    (numbers,) = json.loads(out, parse_constant=pytest.fail)
    assert numbers["name"] == run.recipe.name
    assert numbers["version"] == 2
    assert numbers["clean"]["pool"]["ece"] == run.summary.clean.pool.ece
    assert numbers["cA"] is None


def test_corruptions_and_the_authors_list(run):
    """The benchmark's 15 types and the authors' 17 share 13; each has a mean of its own."""
    code, out, err = run_command("evaluate", run.folder, "--corruptions")
    assert code == 0
    assert "frost: " in err
    assert "75 corrupted test sets" in err
    accuracy = run.summary.corrupted_mean("accuracy")
    assert f"corrupted: accuracy {100 * accuracy:.2f} %" in out
    code, out, err = run_command("evaluate", run.folder, "--authors-list")
    assert code == 0
    assert f"{5 * len(set(AUTHORS_CIFAR100) - set(CORRUPTIONS))} corrupted test sets" in err
    mean = run.summary.corrupted_mean("accuracy", types=AUTHORS_CIFAR100)
    assert f"corrupted, the authors' 17 types: accuracy {100 * mean:.2f} %" in out
    assert run.summary.corrupted_mean("accuracy") == accuracy
    # A run that has both shows the benchmark's unless the authors' are asked for.
    assert f"corrupted: accuracy {100 * accuracy:.2f} %" in run_command("evaluate", run.folder)[1]


def test_a_folder_of_corrupted_images(run, tmp_path, monkeypatch):
    monkeypatch.setattr("calmix.cli.evaluate.CORRUPTIONS", ("contrast",))
    words = ("corrupt", "--dataset", "digits", "--out", tmp_path / "c", "--names", "contrast")
    assert run_command(*words)[0] == 0
    code, out, err = run_command("evaluate", run.folder, "--corrupted", tmp_path / "c")
    assert code == 0, err
    assert run.summary.sources["contrast"].kind == "folder"
    mean = run.summary.corrupted_mean("accuracy", types=["contrast"])
    assert f"corrupted: accuracy {100 * mean:.2f} %" in out
    code, _, err = run_command("evaluate", run.folder, "--corrupted", tmp_path / "nothing")
    assert code == 2
    assert "cannot be read" in err


def test_several_runs_and_one_that_cannot_be_read(run):
    other = fabricate(run.folder.parent, dataset="digits", scale="smoke")
    broken = run.folder.parent / "broken"
    broken.mkdir()
    (broken / "recipe.json").write_text("{")
    code, out, err = run_command("evaluate", run.folder.parent, "--json")
    assert code == 0
    assert {numbers["name"] for numbers in json.loads(out)} == {run.recipe.name, other.recipe.name}
    assert "broken/recipe.json cannot be read as JSON" in err
    assert run_command("evaluate", broken)[0] == 2


def test_one_bad_run_does_not_hide_the_others(run):
    other = shutil.copytree(run.folder, run.folder.parent / "a[bold]damaged")
    (other / "model.safetensors").write_bytes(b"no weights")
    broken = run.folder.parent / "broken"
    broken.mkdir()
    (broken / "recipe.json").write_text("[" * 100_000)
    code, out, err = run_command("evaluate", run.folder.parent)
    assert code == 2
    assert run.folder.name[:20] in out
    assert "recipe.json cannot be read as JSON" in err
    assert "does not hold the weights of its recipe.json" in err
    assert err.endswith("calmix: 1 of 2 runs could not be evaluated\n")


def test_brackets_in_a_folder_are_no_markup(run):
    folder = run.folder.rename(run.folder.with_name("run[red]1[bold]"))
    code, out, _ = run_command("evaluate", folder)
    assert code == 0
    assert "run[red]1[bold]" in out.splitlines()[0]


@pytest.mark.parametrize("change", [{"intervals": {}}, {"members": []}])
def test_a_summary_that_lacks_numbers_is_shown_without_them(run, change):
    assert run_command("evaluate", run.folder)[0] == 0
    fields = json.loads(run.summary_path.read_text())
    fields["clean"] |= change
    run.summary_path.write_text(json.dumps(fields))
    code, out, err = run_command("evaluate", run.folder)
    assert (code, "Traceback" in err) == (0, False)
    assert "accuracy" in out
