import json
import multiprocessing

import pytest

import calmix
from calmix.cli.train import parse
from calmix.runs.folder import create, find_runs, lock
from calmix.runs.presets import preset
from calmix.runs.recipe import Recipe
from calmix.study.executors import ProcessExecutor
from tests.scenarios import run_command, weights

FAST = ["--scale", "smoke", "--epochs", "1", "--train-size", "40", "--width", "4", "--batch-size", "20"]


def recipe_of(*words):
    return parse(list(words))[1]


def test_a_command_starts_from_its_preset():
    assert recipe_of() == preset("digits", "single", "none", scale="laptop")
    words = ("--dataset", "cifar100", "--ensemble", "batch", "--augment", "augmix+camixup-by-pool")
    assert recipe_of(*words, "--scale", "paper") == preset(
        "cifar100", "batch", "augmix+camixup-by-pool", scale="paper"
    )
    assert recipe_of("--dataset", "cifar10", "--paper-code") == preset("cifar10", "single", paper_code=True)
    assert recipe_of("--augment=augcamixup").augment == "augmix+camixup"


def test_fields_of_the_recipe_have_flags():
    recipe = recipe_of(
        *("--epochs", "3", "--no-flip", "--member-norm", "--decay-epochs", "1", "2", "--alpha", "0.5"),
        *("--train-size", "100", "--sign-probability", "0.25", "--precision", "bf16-mixed", "--shards", "2"),
    )
    assert recipe == preset("digits", "single").replace(
        epochs=3,
        flip=False,
        member_norm=True,
        decay_epochs=(1, 2),
        alpha=0.5,
        train_size=100,
        sign_probability=0.25,
        precision="bf16-mixed",
        shards=2,
    )


def test_options_of_the_network_have_flags():
    start = preset("digits", "single").network_options
    assert recipe_of("--width", "8", "--dropout", "0.1").network_options == start | {
        "width": 8,
        "dropout": 0.1,
    }
    wide = recipe_of("--network", "wide_resnet", "--depth", "10", "--width", "2", "--filterwise")
    kept = {"mean": [0.3], "std": [0.38]}
    assert wide.network_options == kept | {"depth": 10, "width": 2, "filterwise": True}
    assert recipe_of("--network", "mlp", "--hidden", "8").network_options == kept | {"hidden": 8}
    options = recipe_of("--network-options", '{"mean": [0.5], "width": 4}', "--width", "8").network_options
    assert options == start | {"mean": [0.5], "width": 8}


def test_a_recipe_file_can_be_changed(tmp_path):
    path = tmp_path / "recipe.json"
    options = {"depth": 10, "filterwise": True}
    recipe = Recipe(
        ensemble="deep", members=3, mixing="mixup", network="wide_resnet", network_options=options
    )
    path.write_text(json.dumps({"version": "0.0.1"} | json.loads(recipe.to_json())))
    assert recipe_of("--recipe", str(path)) == recipe
    changed = recipe_of("--recipe", str(path), "--seed", "7", "--mixing", "cutmix", "--no-filterwise")
    assert changed == recipe.replace(seed=7, mixing="cutmix", filterwise=False)
    path.write_text(json.dumps({"ensemble": "deep", "members": 3, "width": 8, "train_size": 0}))  # of 0.1
    assert recipe_of("--recipe", str(path)) == Recipe(
        ensemble="deep", members=3, network_options={"width": 8}
    )


def test_train_then_evaluate(tmp_path):
    words = ("train", "--dataset", "digits", "--augment", "camixup", *FAST, "--out", tmp_path)
    code, out, _ = run_command(*words)
    assert code == 0
    assert "members' mean" in out
    (run,) = find_runs([tmp_path])
    assert str(run.folder) in out
    assert run.recipe.mixing == "camixup"
    before = run.model_path.stat().st_mtime_ns
    code, out, err = run_command(*words)
    assert code == 0
    assert "trained already" in err
    assert "members' mean" in out
    assert run.model_path.stat().st_mtime_ns == before


def test_a_recipe_file_alone_repeats_its_run(tmp_path):
    command = ["train", "--ensemble", "batch", "--augment", "augmix+camixup", *FAST, "--seed", "3"]
    assert run_command(*command, "--out", tmp_path / "first")[0] == 0
    (first,) = find_runs([tmp_path / "first"])
    written = json.loads((first.folder / "recipe.json").read_text())
    assert (written["version"], written["seed"]) == (calmix.__version__, 3)
    words = ("train", "--recipe", first.folder / "recipe.json", "--out", tmp_path / "again")
    assert run_command(*words)[0] == 0
    (again,) = find_runs([tmp_path / "again"])
    assert again.folder.name == first.folder.name
    assert weights(again) == weights(first)


def test_members_one_by_one_are_the_ensemble(tmp_path):
    command = ["train", "--ensemble", "deep", "--augment", "mixup", *FAST]
    for member in (1, 0):
        assert run_command(*command, "--out", tmp_path / "apart", "--member", member)[0] == 0
    assert run_command(*command, "--out", tmp_path / "together")[0] == 0
    (apart,), (together,) = (find_runs([tmp_path / name]) for name in ("apart", "together"))
    assert weights(apart) == weights(together)
    assert apart.summary == together.summary


class ForkedExecutor(ProcessExecutor):
    """Workers that need not import torch anew, which takes seconds."""

    def __init__(self, context, reporter, *, jobs):
        super().__init__(context, reporter, jobs=jobs)
        self.multiprocessing = multiprocessing.get_context("fork")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("augment", ["camixup", "camixup-by-pool"])
def test_members_side_by_side_are_the_ensemble(tmp_path, monkeypatch, augment):
    monkeypatch.setattr("calmix.cli.train.ProcessExecutor", ForkedExecutor)
    command = ["train", "--ensemble", "deep", "--augment", augment, *FAST, "--epochs", "2"]
    assert run_command(*command, "--out", tmp_path / "together")[0] == 0
    code, out, err = run_command(*command, "--out", tmp_path / "jobs", "--jobs", 2)
    assert code == 0, err
    assert "members' mean" in out
    jobs, together = (find_runs([tmp_path / name])[0] for name in ("jobs", "together"))
    assert weights(jobs) == weights(together)
    assert jobs.summary == together.summary


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_the_error_of_a_worker_is_that_of_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr("calmix.cli.train.ProcessExecutor", ForkedExecutor)
    command = ["train", "--ensemble", "deep", *FAST, "--learning-rate", "1e30", "--epochs", "5"]
    code, out, err = run_command(*command, "--out", tmp_path, "--jobs", 2)
    assert (code, out) == (2, "")
    assert "member 0: the loss is nan" in err.splitlines()[-1]


def test_a_run_that_another_process_trains_is_refused(tmp_path):
    recipe = recipe_of(*FAST)
    with lock(create(recipe, tmp_path).folder):
        code, _, err = run_command("train", *FAST, "--out", tmp_path)
    assert code == 2
    assert "is at work on" in err
