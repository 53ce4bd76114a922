import contextlib
import io
import multiprocessing
import os
import random
import signal
from pathlib import Path

import pytest
import torch

from calmix import InputError, interrupts
from calmix.cli import main
from calmix.progress import Progress
from calmix.runs import checkpoint
from calmix.runs.folder import Run, create, lock
from calmix.runs.launch import Machine, is_main_process
from tests.scenarios import Stop, StopAt, tiny, trained, weights


def test_together_and_apart_are_bit_identical(tmp_path):
    recipe = tiny("deep", "camixup", members=3, epochs=2)
    together = trained(recipe, tmp_path / "together")
    for member in (2, 0, 1):
        apart = trained(recipe, tmp_path / "apart", members=[member])
        assert apart.trained == (member == 1)
    assert weights(apart) == weights(together)
    assert [(epoch.member, epoch.epoch) for epoch in apart.history] == [
        (epoch.member, epoch.epoch) for epoch in together.history
    ]


@pytest.mark.parametrize("ensemble", ["single", "deep", "batch"])
def test_dropout_follows_from_the_seed(tmp_path, ensemble):
    """Layers of torch's own draw from its global state, which others use too: together, apart, resumed."""
    recipe = tiny(ensemble, dropout=0.3, epochs=2)
    torch.manual_seed(1)
    first = trained(recipe, tmp_path / "first")
    torch.manual_seed(2)
    state = torch.get_rng_state()
    with pytest.raises(Stop):
        trained(recipe, tmp_path / "again", reporter=StopAt(3), save_seconds=0.0)
    for members in ([1], [0]) if ensemble == "deep" else (None,):
        again = trained(recipe, tmp_path / "again", members=members)
    assert torch.equal(torch.get_rng_state(), state)
    assert weights(again) == weights(first)
    plain = trained(tiny(ensemble, epochs=2), tmp_path / "plain")
    assert weights(plain) != weights(first)


@pytest.mark.parametrize(
    ("ensemble", "augment"),
    [
        ("single", "none"),
        ("batch", "augmix+camixup"),
        ("mc", "forgetting"),
        ("deep", "camixup-by-pool"),
    ],
)
def test_stopped_after_any_step_it_resumes_exactly(tmp_path, ensemble, augment):
    recipe = tiny(ensemble, augment)
    whole = trained(recipe, tmp_path / "whole")
    # A checkpoint after every step: so it also goes on from the middle of an epoch.
    for count in (2, 3, 5, 4):
        with pytest.raises(Stop):
            trained(recipe, tmp_path / "stopped", reporter=StopAt(count), save_seconds=0.0)
    resumed = trained(recipe, tmp_path / "stopped", save_seconds=0.0)
    assert weights(resumed) == weights(whole)
    assert [epoch.mixed_classes for epoch in resumed.history] == [
        epoch.mixed_classes for epoch in whole.history
    ]


def child(recipe, out):
    torch.set_num_threads(1)
    trained(recipe, out, save_seconds=0.02)
    os._exit(0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_killed_at_random_moments_it_resumes_exactly(tmp_path):
    recipe = tiny("deep", "camixup", gap_of="pool", epochs=15)
    whole = trained(recipe, tmp_path / "whole")
    choose = random.Random(3)
    killed = 0
    for _ in range(40):
        process = multiprocessing.get_context("fork").Process(
            target=child, args=(recipe, tmp_path / "killed")
        )
        process.start()
        process.join(choose.uniform(0.05, 0.3) if killed < 5 else None)
        if process.exitcode == 0:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        killed += 1
    assert killed == 5, "the run was too short to be killed"
    finished = trained(recipe, tmp_path / "killed")
    assert weights(finished) == weights(whole)
    assert [epoch.epoch for epoch in finished.history] == [*range(1, 16)] * 2
    assert (finished.folder / "metrics.jsonl").read_bytes().count(b"\n") == 30


class TerminateAt:
    """A reporter that sends this process SIGTERM at the n-th event of progress."""

    def __init__(self, count):
        self.count = count

    def __call__(self, event):
        self.count -= isinstance(event, Progress)
        if self.count == 0:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("ensemble", "augment"), [("batch", "camixup"), ("deep", "camixup-by-pool")])
def test_sigterm_writes_a_last_checkpoint(tmp_path, ensemble, augment):
    recipe = tiny(ensemble, augment, epochs=2)
    whole = trained(recipe, tmp_path / "whole")
    with pytest.raises(interrupts.Terminated), interrupts.raising():
        trained(recipe, tmp_path / "ended", reporter=TerminateAt(3), save_seconds=1e9)
    run = Run(tmp_path / "ended" / recipe.name, recipe)
    assert checkpoint.load(run.stream_folder(0))["step"] == 3
    assert weights(trained(recipe, tmp_path / "ended")) == weights(whole)


def train_and_evaluate(recipe, out, member):
    torch.set_num_threads(1)
    words = [
        "train",
        "--recipe",
        out / "recipe.json",
        "--out",
        out,
        "--accelerator",
        "cpu",
        "--member",
        member,
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        main([str(word) for word in words])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_members_of_an_array_job_that_end_at_once_all_succeed(tmp_path):
    recipe = tiny("deep", members=5, epochs=1, train_size=20, test_size=20)
    (tmp_path / "recipe.json").write_text(recipe.to_json())
    fork = multiprocessing.get_context("fork")
    jobs = [fork.Process(target=train_and_evaluate, args=(recipe, tmp_path, k)) for k in range(5)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(60)
    assert [job.exitcode for job in jobs] == [0] * 5
    run = Run(tmp_path / recipe.name, recipe)
    assert run.trained
    assert len(run.summary.clean.members) == 5


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path):
    recipe, other = tiny(epochs=2), tiny(epochs=2, alpha=0.5)
    for each in (recipe, other):
        with pytest.raises(Stop):
            trained(each, tmp_path, reporter=StopAt(2), save_seconds=0.0)
    path = Path(checkpoint.NEWEST)
    content = (tmp_path / other.name / path).read_bytes()
    (tmp_path / recipe.name / path).write_bytes(content)
    with pytest.raises(InputError, match=f"does not fit its recipe.json: it is a checkpoint of {other.name}"):
        trained(recipe, tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": -1},
        {"epoch": 99},
        {"epoch": None},
        {"step": 10**6},
        {"loss": [1]},
        pytest.param({"loss": 10**400}, id="loss beyond float64"),
        {"history": 3},
        {"model": {}},
        {"mixer": 7},
        {"optimiser": {"state": {}, "param_groups": []}},
    ],
    ids=str,
)
def test_a_checkpoint_that_cannot_be_is_an_input_error(tmp_path, change):
    recipe = tiny("batch", "camixup", epochs=2)
    with pytest.raises(Stop):
        trained(recipe, tmp_path, reporter=StopAt(2), save_seconds=0.0)
    folder = tmp_path / recipe.name
    checkpoint.save(folder, checkpoint.load(folder) | change)
    with pytest.raises(InputError, match=r"checkpoint\.pt does not fit its recipe\.json"):
        trained(recipe, tmp_path)


@pytest.mark.parametrize(
    "moments", [0.5, {}, {"momentum_buffer": torch.zeros(2)}, {"momentum_buffer": "x"}], ids=str
)
def test_an_optimiser_with_strange_moments_is_an_input_error(tmp_path, moments):
    recipe = tiny("batch", "mixup", epochs=2)
    with pytest.raises(Stop):
        trained(recipe, tmp_path, reporter=StopAt(2), save_seconds=0.0)
    folder = tmp_path / recipe.name
    state = checkpoint.load(folder)
    state["optimiser"]["state"][0] = moments
    checkpoint.save(folder, state)
    with pytest.raises(InputError, match="its optimiser's state does not fit the parameters"):
        trained(recipe, tmp_path)


def test_a_checkpoint_without_its_recipe_is_of_an_earlier_version(tmp_path):
    recipe = tiny(epochs=2)
    with pytest.raises(Stop):
        trained(recipe, tmp_path, reporter=StopAt(2), save_seconds=0.0)
    folder = tmp_path / recipe.name
    state = checkpoint.load(folder)
    del state["recipe"]
    checkpoint.save(folder, state)
    assert trained(recipe, tmp_path).trained


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"members": 10**8, "ensemble": "deep"}, "members must be at most"),
        ({"alpha": 1e300}, "alpha must be at most"),
        ({"epochs": 10**12}, "epochs must be at most"),
        ({"width": 10**9}, "width must be at most"),
        ({"width": 500_000}, "TB of memory"),
        ({"network": "wide_resnet", "depth": 10**9}, "depth must be at most"),
        ({"network": "mlp", "hidden": 10**8}, "of memory"),
        ({"batch_size": 10**9}, "batch_size must be at most"),
    ],
)
def test_absurd_values_are_refused_before_memory_is_spent(tmp_path, monkeypatch, fields, message):
    monkeypatch.setattr("calmix.memory.free_memory", lambda: 2**30)
    with pytest.raises(InputError, match=message):
        trained(tiny().replace(**fields), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_damaged_checkpoint_falls_back_to_its_predecessor(tmp_path):
    recipe = tiny("batch", "camixup")
    whole = trained(recipe, tmp_path / "whole")
    with pytest.raises(Stop):
        trained(recipe, tmp_path / "damaged", reporter=StopAt(9), save_seconds=0.0)
    path = tmp_path / "damaged" / recipe.name / checkpoint.NEWEST
    path.write_bytes(path.read_bytes()[:-1])
    assert weights(trained(recipe, tmp_path / "damaged")) == weights(whole)


def test_a_finished_run_returns_at_once(tmp_path):
    run = trained(tiny(), tmp_path)
    before = run.model_path.stat().st_mtime_ns
    assert trained(tiny(), tmp_path, reporter=StopAt(1)).trained  # which stops whatever is trained
    assert run.model_path.stat().st_mtime_ns == before


def test_two_processes_never_write_one_run(tmp_path):
    run = create(tiny(), tmp_path)
    with lock(run.folder), pytest.raises(InputError, match=r"another process \(\d+ on .*\) is at work"):
        trained(tiny(), tmp_path)
    assert trained(tiny(), tmp_path).trained


def test_two_processes_may_train_two_members(tmp_path):
    run = create(tiny("deep"), tmp_path)
    with lock(run.stream_folder(0)):
        with pytest.raises(InputError, match="another process"):
            trained(tiny("deep"), tmp_path, members=[0])
        with pytest.raises(InputError, match="another process"):
            trained(tiny("deep"), tmp_path)
        assert not trained(tiny("deep"), tmp_path, members=[1]).trained
    assert trained(tiny("deep"), tmp_path, members=[0]).trained


def test_leftovers_that_could_not_be_removed_go_when_the_ensemble_is_written(tmp_path, monkeypatch):
    run = create(tiny("deep"), tmp_path)
    left = run.stream_folder(0) / ".checkpoint.pt.0123abcd.part"
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(b"half")
    with monkeypatch.context() as failing:
        failing.setattr("calmix.locks.remove_leftovers", lambda folder: None)
        assert not trained(tiny("deep"), tmp_path, members=[0]).trained
    assert left.exists()
    assert trained(tiny("deep"), tmp_path, members=[1]).trained
    assert not left.exists()


def test_members_that_there_are_not(tmp_path):
    with pytest.raises(InputError, match=r"member 2: a deep ensemble of 2 has members 0\.\.1"):
        trained(tiny("deep"), tmp_path, members=[0, 2])
    with pytest.raises(InputError, match="member 0"):
        trained(tiny("batch"), tmp_path, members=[0])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_reported_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write to .* choose another folder"):
        trained(tiny(), tmp_path / "file", reporter=pytest.fail)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"network_options": {"widht": 8}}, "did you mean 'width'"),
        ({"train_size": 5000}, "validation leaves"),
        ({"precision": "33-true"}, "precision '33-true' is not available on this machine"),
        ({"mixing": "camixup", "by_group": True}, "digits has no groups"),
    ],
)
def test_a_recipe_that_cannot_be_trained_leaves_no_folder(tmp_path, fields, message):
    with pytest.raises(InputError, match=message):
        trained(tiny(**fields), tmp_path)
    assert not list(tmp_path.iterdir())


def test_precision_is_part_of_the_run(tmp_path):
    exact = trained(tiny("batch", epochs=1), tmp_path)
    rough = trained(tiny("batch", epochs=1, precision="bf16-mixed"), tmp_path)
    assert exact.folder != rough.folder
    assert weights(exact) != weights(rough)


@pytest.mark.parametrize("fields", [{"accelerator": "gpuu"}, {"accelerator": "cuda", "devices": 64}])
def test_a_machine_that_is_not_there(fields):
    with pytest.raises(InputError, match="is not available on this machine"):
        Machine(**fields).fabric()


@pytest.mark.parametrize("name", ["threads", "devices", "nodes"])
def test_machines_have_at_least_one_of_everything(name):
    with pytest.raises(InputError, match=f"{name} must be at least 1"):
        Machine(**{name: 0})
    with pytest.raises(InputError, match=f"{name} must be at most 4,096"):
        Machine(**{name: 2**64})
    with pytest.raises(InputError, match="save_seconds must be at least 0"):
        Machine(save_seconds=float("nan"))


def test_a_process_alone_is_the_main_one():
    assert is_main_process()
