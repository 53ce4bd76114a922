import json
import os
import signal
import subprocess
import sys

import pytest

import calmix
from calmix.cli import COMMANDS, main
from calmix.study.tasks import Task, TaskResult
from tests.scenarios import run_command, tiny

FAST = ["--scale", "smoke", "--epochs", "1", "--train-size", "40", "--width", "4", "--batch-size", "20"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    code, out, err = run_command(command, "--help")
    assert (code, err) == (0, "")
    assert f"Example: calmix {command}" in out


def test_the_overview():
    code, out, err = run_command("--help")
    assert (code, err) == (0, "")
    assert all(f"  {command} " in out for command in COMMANDS)
    assert run_command() == (2, out, "")


def test_the_version():
    assert run_command("--version") == (0, f"calmix {calmix.__version__}\n", "")


def test_commands_keep_freed_memory(monkeypatch):
    calls = []
    monkeypatch.setattr("calmix.cli.keep_freed_memory", lambda: calls.append(True))
    run_command("--version")
    assert not calls
    assert run_command("data")[0] == 0
    assert calls == [True]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["trian"], "did you mean 'train'"),
        (["train", "--dataset", "cifar11"], "did you mean 'cifar10'"),
        (["train", "--augment", "camix"], "did you mean 'camixup'"),
        (["train", "--ensemble", "bach"], "did you mean 'batch'"),
        (["train", "--scale", "paperr"], "did you mean 'paper'"),
        (["train", "--epochss", "3"], "--epochs"),
        (["train", "--epochs", "0"], "epochs must be at least 1"),
        (["train", "--epochs", "three"], "three"),
        (["train", "--ensemble", "deep", "--members", "100000000"], "members must be at most 10,000"),
        (["train", "--augment", "mixup", "--alpha", "1e300"], "alpha must be at most"),
        (["train", "--width", "1000000000"], "width must be at most"),
        (["train", "--network-options", "[" * 100_000], "--network-options must be a JSON object"),
        (["reproduce", "toy", "--seeds", "100000000"], "seeds must be at most"),
        (["evaluate", "\x1b[31mred[/]\udcff"], "\\x1b[31mred[/]\\xff: no such folder"),
        (["train", "--width", "0"], "width must be at least 1"),
        (["train", "--network", "mlp", "--width", "8"], "unknown option of mlp 'width'"),
        (["train", "--network-options", "[]"], "--network-options must be a JSON object, got []"),
        (["train", "--network-options", "{"], "--network-options must be a JSON object, got {"),
        (["train", "--network-options", '{"widht": 8}'], "did you mean 'width'"),
        (["train", "--network-options", '{"width": "x"}'], "do not fit small_resnet"),
        (["train", "--dataset", "cifar10", "--data-root", "nowhere"], "or the command `calmix data`"),
        (["train", "--member", "3"], "member 3"),
        (["train", "--ensemble", "deep", "--augment", "camixup-by-pool", "--member", "0"], "--gap-of pool"),
        (["train", "--jobs", "0"], "jobs must be at least 1"),
        (["train", "--jobs", "2", "--devices", "2"], "--jobs trains members side by side on one device"),
        (["train", "--threads", "0"], "threads must be at least 1"),
        (["train", "--save-seconds", "nan"], "save_seconds must be at least 0"),
        (["train", "--recipe", "nowhere.json"], "nowhere.json"),
        (["train", "--recipe=nowhere.json", "--augment=mixup"], "--augment chooses a preset"),
        (["evaluate", "nowhere"], "no such folder"),
        (["evaluate"], "name at least one run"),
        (["report", "nowhere"], "no such folder"),
        (["claims", "--runs", "nowhere"], "no such folder"),
        (["corrupt", "--dataset", "clusters", "--out", "x"], "clusters"),
        (["corrupt", "--dataset", "digts", "--out", "x"], "did you mean 'digits'"),
        (["corrupt", "--dataset", "digits", "--out", "x", "--jobs", "0"], "jobs must be at least 1"),
        (["corrupt", "--dataset", "digits", "--out", "x", "--names", "fogg"], "did you mean 'fog'"),
        (
            ["corrupt", "--dataset", "digits", "--out", "x", "--names", "fog", "--authors-list"],
            "choose one of --names, --benchmark-only and --authors-list",
        ),
        (["reproduce", "pathology", "--dataset", "cifr10"], "did you mean 'cifar10'"),
        (["reproduce", "toy", "--jobs", "0"], "jobs must be at least 1"),
        (["demo", "--jobs", "0"], "jobs must be at least 1"),
        (["demo", "--scale", "smok"], "did you mean 'smoke'"),
        (["data", "--download", "imagenet"], "imagenet"),
        (["data", "--download", "cifr10"], "did you mean 'cifar10'"),
        (["audit", "nowhere.npz"], "nowhere.npz: no such file"),
        (
            ["calibrate", "fit", "nowhere.npz", "--out", "y.json"],
            "nowhere.npz: no such file",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_message_and_exit_code_2(tmp_path, monkeypatch, words, hint):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_command(*words)
    assert (code, out) == (2, "")
    assert hint in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_a_reader_that_leaves_is_no_error():
    command = f"{sys.executable} -m calmix --help | head -1"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=environment, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("calmix")


def test_an_interruption_is_one_line(monkeypatch, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("calmix.runs.launch.Trainer", interrupt)
    code, out, err = run_command("train", *FAST, "--out", tmp_path)
    assert (code, out) == (130, "")
    assert err == "calmix: stopped; what was finished is kept, the same command goes on from there\n"


def test_a_full_disk_is_one_line(monkeypatch, tmp_path):
    def full(*_, **__):
        raise OSError(28, "No space left on device", str(tmp_path / "checkpoint.pt"))

    monkeypatch.setattr("calmix.runs.checkpoint.save", full)
    code, _, err = run_command("train", *FAST, "--out", tmp_path)
    assert code == 2
    assert err == f"calmix: {tmp_path / 'checkpoint.pt'}: No space left on device\n"


def test_data_as_json(tmp_path):
    code, out, err = run_command("data", "--json", "--data-root", tmp_path)
    assert (code, err) == (0, "")
    states = {entry["name"]: entry["state"] for entry in json.loads(out)}
    assert states["digits"] == "present"
    assert states["cifar10"] == "missing"


def test_data_as_a_table(tmp_path):
    code, out, _ = run_command("data", "--data-root", tmp_path)
    assert code == 0
    assert "cifar10" in out
    assert "missing" in out


def test_corrupted_test_sets_are_written(tmp_path):
    words = ("corrupt", "--dataset", "digits", "--out", tmp_path / "c", "--names", "contrast")
    code, out, _ = run_command(*words)
    assert (code, out) == (0, f"{tmp_path / 'c'}\n")
    assert {path.name for path in (tmp_path / "c").glob("*.npy")} == {"contrast.npy", "labels.npy"}
    before = (tmp_path / "c" / "contrast.npy").stat().st_mtime_ns
    assert run_command(*words)[0] == 0
    assert (tmp_path / "c" / "contrast.npy").stat().st_mtime_ns == before


def test_sigterm_is_one_line_and_exit_code_143(monkeypatch, tmp_path):
    def terminate(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("calmix.runs.launch.load_splits", terminate)
    code, out, err = run_command("train", *FAST, "--out", tmp_path)
    assert (code, out) == (143, "")
    assert err == "calmix: terminated; what was finished is kept, the same command goes on from there\n"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_too_little_memory_is_one_line(monkeypatch, tmp_path, error):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr("calmix.runs.launch.load_splits", refuse)
    code, _, err = run_command("train", *FAST, "--out", tmp_path)
    assert code == 2
    assert err.startswith("calmix: out of memory")
    assert err.count("\n") == 1


def test_defects_are_not_hidden(monkeypatch, tmp_path):
    def fail(*_, **__):
        raise RuntimeError("a defect")

    monkeypatch.setattr("calmix.runs.launch.load_splits", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        main(["train", *FAST, "--out", str(tmp_path)])


def test_brackets_in_a_path_are_no_markup(tmp_path):
    _, out, _ = run_command("data", "--data-root", tmp_path / "[red]x[/red]")
    assert "[red]x[/red]" in out.replace("\n", "").replace(" ", "").replace("│", "") or "[red]" in out


def test_a_full_disk_is_named_once_with_several_jobs(monkeypatch, tmp_path):
    def full(self, task):
        pass

    def results(self):
        recipe = tiny("deep")
        path = tmp_path / "checkpoint.pt"
        for member in range(2):
            yield TaskResult(Task(recipe, (member,)), f"{path}: No space left on device", fatal=True)

    monkeypatch.setattr("calmix.study.executors.ProcessExecutor.submit", full)
    monkeypatch.setattr("calmix.study.executors.ProcessExecutor.results", results)
    code, _, err = run_command("train", *FAST, "--ensemble", "deep", "--jobs", 2, "--out", tmp_path)
    assert (code, err) == (2, f"calmix: {tmp_path / 'checkpoint.pt'}: No space left on device\n")
