import json
import subprocess
import sys

import pytest

import calmix
from calmix.cli import COMMANDS, main, train
from calmix.recipe import Recipe

FAST = ["--scale", "smoke", "--epochs", "1", "--train-size", "40", "--width", "4", "--batch-size", "20"]


def call(*arguments):
    """Exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    return ended.value.code


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(capsys, command):
    assert call(command, "--help") == 0
    text = capsys.readouterr().out
    assert f"Example: calmix {command}" in text


def test_the_overview(capsys):
    assert call("--help") == 0
    text = capsys.readouterr().out
    assert all(f"  {command} " in text for command in COMMANDS)
    assert call() == 2


def test_commands_keep_freed_memory(monkeypatch, capsys):
    called = []
    monkeypatch.setattr("calmix.cli.keep_freed_memory", lambda: called.append(True))
    call("--version")
    assert not called
    assert call("data") == 0
    assert called == [True]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["trian"], "did you mean 'train'"),
        (["train", "--dataset", "cifar11"], "did you mean 'cifar10'"),
        (["train", "--augment", "camix"], "did you mean 'camixup'"),
        (["train", "--ensemble", "bach"], "did you mean 'batch'"),
        (["train", "--scale", "paperr"], "did you mean 'paper'"),
        (["train", "--epochss", "3"], "--epochs"),
        (["train", "--epochs", "0"], "--epochs must be at least 1"),
        (["train", "--epochs", "three"], "three"),
        (["train", "--dataset", "cifar10", "--data-root", "nowhere"], "calmix data --download cifar10"),
        (["train", "--member", "3"], "--member"),
        (["train", "--jobs", "2", "--devices", "2"], "--jobs"),
        (["train", "--threads", "0"], "--threads must be at least 1"),
        (["train", "--save-seconds", "nan"], "--save-seconds must be at least 0"),
        (["train", "--recipe", "nowhere.json"], "nowhere.json"),
        (["train", "--recipe=nowhere.json", "--augment=mixup"], "--augment chooses a preset"),
        (["evaluate", "nowhere"], "no such folder"),
        (["evaluate"], "name at least one run"),
        (["corrupt", "--dataset", "clusters", "--out", "x"], "clusters"),
        (["corrupt", "--dataset", "digts", "--out", "x"], "did you mean 'digits'"),
        (["corrupt", "--dataset", "digits", "--out", "x", "--jobs", "0"], "--jobs must be at least 1"),
        (["reproduce", "pathology", "--dataset", "cifr10"], "did you mean 'cifar10'"),
        (["corrupt", "--dataset", "digits", "--out", "x", "--names", "fogg"], "did you mean 'fog'"),
        (["data", "--download", "imagenet"], "imagenet"),
        (["data", "--download", "cifr10"], "did you mean 'cifar10'"),
        (["audit", "nowhere.npz"], "nowhere.npz: no such file"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(capsys, tmp_path, monkeypatch, arguments, hint):
    monkeypatch.chdir(tmp_path)
    assert call(*arguments) == 2
    told = capsys.readouterr().err
    assert hint in told
    assert "Traceback" not in told
    assert not list(tmp_path.iterdir())


def test_train_then_evaluate(capsys, tmp_path):
    assert call("train", "--dataset", "digits", "--augment", "camixup", *FAST, "--out", tmp_path) == 0
    assert "members' mean" in capsys.readouterr().out
    assert call("evaluate", tmp_path, "--json") == 0
    (summary,) = json.loads(capsys.readouterr().out)
    assert summary["recipe"]["mixing"] == "camixup"
    assert 0 <= summary["clean"]["pool"]["ece"] <= 1


def test_a_recipe_file_alone_repeats_its_run(tmp_path):
    command = ["train", "--ensemble", "batch", "--augment", "augmix+camixup", *FAST, "--seed", "3"]
    assert call(*command, "--out", tmp_path / "first") == 0
    (first,) = (tmp_path / "first").iterdir()
    written = json.loads((first / "recipe.json").read_text())
    assert (written["version"], written["seed"]) == (calmix.__version__, 3)
    assert call("train", "--recipe", first / "recipe.json", "--out", tmp_path / "again") == 0
    again = tmp_path / "again" / first.name
    assert (again / "model.safetensors").read_bytes() == (first / "model.safetensors").read_bytes()


def test_a_recipe_file_can_be_changed(tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps({"version": "0.0.1", "ensemble": "deep", "members": 3, "mixing": "mixup"}))
    chosen = train.parse(["--recipe", str(path), "--seed", "7", "--mixing", "cutmix"]).recipe
    assert chosen == Recipe(ensemble="deep", members=3, mixing="cutmix", seed=7)


def test_data_as_json(capsys, tmp_path):
    assert call("data", "--json", "--data-root", tmp_path) == 0
    states = {entry["name"]: entry["state"] for entry in json.loads(capsys.readouterr().out)}
    assert states["digits"] == "present"
    assert states["cifar10"] == "missing"


def test_a_reader_that_leaves_is_no_error():
    command = f"{sys.executable} -m calmix --help | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("calmix")


def test_interrupted_it_says_what_is_kept(monkeypatch, capsys, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("calmix.launch.train_stream", interrupt)
    assert call("train", *FAST, "--out", tmp_path) == 130
    assert "goes on from there" in capsys.readouterr().err


def test_a_full_disk_is_the_users_to_mend(monkeypatch, capsys, tmp_path):
    def full(*_, **__):
        raise OSError(28, "No space left on device", str(tmp_path / "checkpoint.pt"))

    monkeypatch.setattr("calmix.checkpoint.save", full)
    assert call("train", *FAST, "--out", tmp_path) == 2
    assert "checkpoint.pt: No space left on device" in capsys.readouterr().err
