"""The command line with a network, data and a mixer that nobody here knows."""

import json
import multiprocessing
import shutil
import sys

import numpy as np
import pytest

from calmix.cli.train import parse
from calmix.runs import code, own
from calmix.runs.folder import find_runs
from calmix.study.executors import ProcessExecutor
from tests.own import arrays, write_code, write_npz
from tests.scenarios import run_command, weights

FAST = ["--epochs", "1", "--train-size", "24", "--batch-size", "12"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_code(tmp_path)
    write_npz(tmp_path / "mine.npz")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(code, "_OBJECTS", {})
    monkeypatch.setattr(own, "_DATA", {})
    for name in [name for name in sys.modules if name.startswith("calmix_own_")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def train(*words, network="nets.py:make", dataset="mine.npz"):
    return run_command("train", "--network", network, "--dataset", dataset, *FAST, "--out", "runs", *words)


def test_train_and_evaluate(folder):
    code_, out, err = train(
        *("--network-options", '{"depth": 3}', "--ensemble", "batch", "--members", "2"),
        *("--augment", "mixers.py:make_policy", "--optimiser", "adamw"),
    )
    assert code_ == 0, err
    assert "members' mean" in out
    assert "mine.npz: 60 training and 20 test examples (image 3x9x9), 3 classes" in err
    (run,) = find_runs([folder / "runs"])
    assert run.recipe.network_options == {"depth": 3}
    assert (run.recipe.mixing, run.recipe.optimiser) == ("mixers.py:make_policy", "adamw")
    assert run_command("evaluate", run.folder)[0] == 0
    code_, _, err = train(
        *("--network-options", '{"depth": 3}', "--ensemble", "batch", "--members", "2"),
        *("--augment", "mixers.py:make_policy", "--optimiser", "adamw"),
    )
    assert "trained already" in err


def test_a_flag_changes_what_was_derived():
    recipe = parse(["--dataset", "digits", "--optimiser", "adamw", "--learning-rate", "0.01"])[1]
    assert (recipe.optimiser, recipe.schedule, recipe.learning_rate) == ("adamw", "cosine", 0.01)


@pytest.mark.parametrize("name", ["wrong_shape", "raises", "no_module", "looks_around"])
def test_a_network_that_does_not_fit(folder, name):
    code_, out, err = train(network=f"nets.py:{name}")
    assert (code_, out) == (2, "")
    assert f"nets.py:{name}" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_train": np.full(60, -1)}, "is -1, out of range"),
        ({"y_test": np.full(20, 7)}, "is 7, out of range for 3 classes"),
        ({"x_test": np.zeros((20, 4, 4, 3), np.uint8)}, "they must be alike"),
    ],
)
def test_data_that_cannot_be_used(folder, changes, message):
    np.savez(folder / "mine.npz", **arrays() | changes)
    code_, out, err = train()
    assert (code_, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_nan_in_a_table(folder):
    values = arrays("vector")
    values["x_train"][7, 2] = np.nan
    np.savez(folder / "mine.npz", **values)
    code_, _, err = train(network="nets.py:perceptron")
    assert code_ == 2
    assert err == (
        "calmix: mine.npz: x_train [7, 2] is nan (1 such value in all): fill it in, or drop the row\n"
    )


def test_a_policy_that_raises_loses_nothing(folder):
    code_, out, err = train("--augment", "mixers.py:make_broken")
    assert (code_, out) == (2, "")
    assert (
        "mixing mixers.py:make_broken: the policy make_broken.<locals>.policy raised KeyError"
        in err.splitlines()[-1]
    )
    assert "the last good checkpoint is kept" in err
    assert list((folder / "runs").glob("*/checkpoint.pt"))


def test_a_changed_source_is_said_and_runs_only_where_it_is_named(folder, monkeypatch):
    assert train()[0] == 0
    (run,) = find_runs([folder / "runs"])
    run.predictions_path("test").unlink()
    (folder / "nets.py").write_text((folder / "nets.py").read_text() + "# changed\n")
    monkeypatch.setattr(code, "_OBJECTS", {})
    for words in (
        ("evaluate", run.folder),
        ("train", "--recipe", run.folder / "recipe.json", "--out", "new"),
    ):
        exit_code, out, err = run_command(*words)
        assert (exit_code, out) == (2, "")
        assert "nets.py has changed since the recipe was written; restore it, or pass network=" in err
    exit_code, _, err = run_command("evaluate", run.folder, "--network", "nets.py:make")
    assert exit_code == 0
    assert "is not the one of the recipe" in err
    words = ("train", "--recipe", run.folder / "recipe.json", "--network", "nets.py:make", "--out", "new")
    assert run_command(*words)[0] == 0
    (other,) = find_runs([folder / "new"])
    assert other.recipe.digests["network"] != run.recipe.digests["network"]
    assert other.recipe.digests["dataset"] == run.recipe.digests["dataset"]


def test_a_run_from_elsewhere_brings_no_code(folder, monkeypatch):
    """A run folder with its own network inside, and a recipe that names it."""
    assert train()[0] == 0
    (run,) = find_runs([folder / "runs"])
    shutil.move(folder / "nets.py", run.folder / "nets.py")
    path = run.folder / "recipe.json"
    recipe = json.loads(path.read_text())
    recipe["paths"]["network"] = str(run.folder / "nets.py")
    path.write_text(json.dumps(recipe))
    run.predictions_path("test").unlink()
    monkeypatch.setattr(code, "_OBJECTS", {})
    exit_code, _, err = run_command("evaluate", run.folder)
    assert exit_code == 2
    assert "lies in a run folder, from which no code runs; pass network=" in err


def test_corruptions_of_a_table_are_refused(folder):
    write_npz(folder / "table.npz", "vector")
    assert train(network="mlp", dataset="table.npz")[0] == 0
    (run,) = find_runs([folder / "runs"])
    exit_code, _, err = run_command("evaluate", run.folder, "--corruptions")
    assert exit_code == 2
    assert "corruptions: table.npz has vector examples of shape (5,)" in err


class ForkedExecutor(ProcessExecutor):
    """Workers that need not import torch anew, which takes seconds."""

    def __init__(self, context, reporter, *, jobs):
        super().__init__(context, reporter, jobs=jobs)
        self.multiprocessing = multiprocessing.get_context("fork")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_workers_train_the_same(folder, monkeypatch):
    words = ["--ensemble", "deep", "--members", "2", "--augment", "mixers.py:make_policy"]
    assert train(*words)[0] == 0
    monkeypatch.setattr("calmix.cli.train.ProcessExecutor", ForkedExecutor)
    exit_code, _, err = train(*words, "--out", "jobs", "--jobs", "2")
    assert exit_code == 0, err
    runs = [find_runs([folder / name])[0] for name in ("runs", "jobs")]
    assert weights(runs[0]) == weights(runs[1])


def package(folder):
    (folder / "own_package").mkdir()
    (folder / "own_package" / "__init__.py").write_text("")
    shutil.copy(folder / "nets.py", folder / "own_package" / "nets.py")
    return "own_package.nets:make"


@pytest.mark.slow
def test_two_new_processes_train_a_network_of_a_package(folder, monkeypatch):
    """Workers are started anew, and know nothing but the recipe."""
    network = package(folder)
    words = ["--ensemble", "deep", "--members", "2"]
    assert train(*words, network=network)[0] == 0
    exit_code, _, err = train(*words, "--out", "jobs", "--jobs", "2", network=network)
    assert exit_code == 0, err
    runs = [find_runs([folder / name])[0] for name in ("runs", "jobs")]
    assert weights(runs[0]) == weights(runs[1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_ray_workers_train_a_network_of_a_package(folder, monkeypatch):
    pytest.importorskip("ray")
    import os

    from calmix.progress import ignore
    from calmix.runs.launch import Machine
    from calmix.study.ray import RayExecutor
    from calmix.study.tasks import Context, divide

    network = package(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # workers import this tree
    words = ["--network", network, "--dataset", "mine.npz", *FAST, "--ensemble", "deep", "--members", "2"]
    recipe = parse(words)[1]
    context = Context(folder / "ray", machine=Machine(accelerator="cpu"))
    with RayExecutor(context, ignore, cpus=0.5) as executor:
        for task in divide(recipe, ()):
            executor.submit(task)
        assert [result.error for result in executor.results()] == ["", ""]
    assert train(*words[4:], network=network)[0] == 0
    runs = [find_runs([folder / name])[0] for name in ("runs", "ray")]
    assert weights(runs[0]) == weights(runs[1])
