import multiprocessing
import os
import random
import signal

import pytest
import torch

from calmix import InputError, checkpoint, run_folder
from calmix.build import load_splits
from calmix.launch import Machine, load_model
from tests.scenarios import Stop, StopAt, tiny, trained, weights


def test_together_apart_and_side_by_side_are_bit_identical(tmp_path):
    recipe = tiny("deep", "camixup", members=3, epochs=2)
    together = trained(recipe, tmp_path / "together")
    for member in (2, 0, 1):
        apart = trained(recipe, tmp_path / "apart", member=member)
        assert apart.trained == (member == 1)
    assert weights(apart) == weights(together)


@pytest.mark.parametrize("ensemble", ["single", "deep", "batch"])
def test_dropout_follows_from_the_seed(tmp_path, ensemble):
    """Layers of torch's own draw from its global state, which others use too: together, apart, resumed."""
    recipe = tiny(ensemble, dropout=0.3, epochs=2)
    torch.manual_seed(1)
    first = trained(recipe, tmp_path / "first")
    torch.manual_seed(2)
    state = torch.get_rng_state()
    with pytest.raises(Stop):
        trained(recipe, tmp_path / "again", listener=StopAt(3), save_seconds=0.0)
    for member in (1, 0) if ensemble == "deep" else (None,):
        again = trained(recipe, tmp_path / "again", member=member)
    assert torch.equal(torch.get_rng_state(), state)
    assert weights(again) == weights(first)
    plain = trained(tiny(ensemble, epochs=2), tmp_path / "plain")
    assert weights(plain) != weights(first)


@pytest.mark.parametrize("gap_of", ["member", "pool"])
def test_two_processes_train_the_same_members(tmp_path, gap_of):
    recipe = tiny("deep", "camixup", gap_of=gap_of, epochs=2)
    together = trained(recipe, tmp_path / "together")
    assert weights(trained(recipe, tmp_path / "jobs", jobs=2)) == weights(together)


def test_the_pool_couples_the_members(tmp_path):
    runs = [trained(tiny("deep", "camixup", gap_of=gap_of), tmp_path) for gap_of in ("member", "pool")]
    assert weights(runs[0]) != weights(runs[1])


@pytest.mark.parametrize(
    ("ensemble", "augment", "gap_of"),
    [
        ("single", "none", "member"),
        ("batch", "augmix+camixup", "member"),
        ("mc", "forgetting", "member"),
        ("deep", "camixup", "pool"),
    ],
)
def test_stopped_after_any_step_it_resumes_exactly(tmp_path, ensemble, augment, gap_of):
    recipe = tiny(ensemble, augment, gap_of=gap_of)
    whole = trained(recipe, tmp_path / "whole")
    # A checkpoint after every step: so it also goes on from the middle of an epoch.
    for calls in (2, 3, 5, 4):
        with pytest.raises(Stop):
            trained(recipe, tmp_path / "stopped", listener=StopAt(calls), save_seconds=0.0)
    assert weights(trained(recipe, tmp_path / "stopped", save_seconds=0.0)) == weights(whole)


def child(recipe, out):
    torch.set_num_threads(1)
    trained(recipe, out, save_seconds=0.02)
    os._exit(0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_killed_at_random_moments_it_resumes_exactly(tmp_path):
    recipe = tiny("deep", "camixup", gap_of="pool", epochs=25)
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
    assert finished.metrics.read_text().count("\n") == whole.metrics.read_text().count("\n") == 50


def test_a_damaged_checkpoint_falls_back_to_its_predecessor(tmp_path):
    recipe = tiny("batch", "camixup")
    whole = trained(recipe, tmp_path / "whole")
    with pytest.raises(Stop):
        trained(recipe, tmp_path / "damaged", listener=StopAt(9), save_seconds=0.0)
    folder = tmp_path / "damaged" / recipe.name
    path = folder / checkpoint.NEWEST
    path.write_bytes(path.read_bytes()[:-1])
    assert weights(trained(recipe, tmp_path / "damaged")) == weights(whole)


def test_a_finished_run_returns_at_once(tmp_path):
    run = trained(tiny(), tmp_path)
    before = run.model.stat().st_mtime_ns
    assert trained(tiny(), tmp_path, listener=StopAt(1)).trained  # which stops whatever is trained
    assert run.model.stat().st_mtime_ns == before


def test_two_processes_never_write_one_run(tmp_path):
    recipe = tiny()
    run = run_folder.create(recipe, tmp_path)
    with run_folder.lock(run.folder), pytest.raises(InputError, match="another process is at work"):
        trained(recipe, tmp_path)
    assert trained(recipe, tmp_path).trained


def test_two_processes_may_train_two_members(tmp_path):
    recipe = tiny("deep")
    run = run_folder.create(recipe, tmp_path)
    with run_folder.lock(run.folder, shared=True), run_folder.lock(run.stream(0)):
        with pytest.raises(InputError, match="another process"):
            trained(recipe, tmp_path, member=0)
        assert not trained(recipe, tmp_path, member=1).trained


def test_members_that_cannot_be_trained_apart(tmp_path):
    with pytest.raises(InputError, match="gap-of pool"):
        trained(tiny("deep", "camixup", gap_of="pool"), tmp_path, member=0)
    with pytest.raises(InputError, match=r"has members 0\.\.1"):
        trained(tiny("deep"), tmp_path, member=2)
    with pytest.raises(InputError, match="--member"):
        trained(tiny("batch"), tmp_path, member=0)


def test_a_folder_that_cannot_be_written_is_said_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write to .* choose another --out"):
        trained(tiny(), tmp_path / "file")


def test_an_untrained_run_has_no_model(tmp_path):
    from calmix.build import load_splits
    from calmix.launch import load_model

    run = run_folder.create(tiny(), tmp_path)
    with pytest.raises(InputError, match="not trained yet"):
        load_model(run, load_splits(tiny(), None))


def test_weights_of_another_recipe_are_told_in_words(tmp_path):
    run = trained(tiny(), tmp_path)
    wider = trained(tiny(width=8), tmp_path)
    splits = load_splits(run.recipe, None)
    for content in (weights(wider), weights(run)[:100], b""):
        run.model.write_bytes(content)
        with pytest.raises(InputError, match="does not hold the weights of its recipe"):
            load_model(run, splits)


def test_runs_are_found_in_folders(tmp_path):
    runs = [run_folder.create(tiny(ensemble), tmp_path) for ensemble in ("single", "deep")]
    assert {run.folder for run in run_folder.find_runs([tmp_path, runs[0].folder])} == {
        r.folder for r in runs
    }
    assert run_folder.open_run(runs[1].folder).recipe == tiny("deep")
    with pytest.raises(InputError, match="holds no run"):
        run_folder.find_runs([runs[1].stream(0)])
    (runs[0].folder / "recipe.json").write_text("{broken")
    with pytest.raises(InputError, match="cannot be read as JSON"):
        run_folder.open_run(runs[0].folder)


@pytest.mark.parametrize("wrong", [{"accelerator": "gpuu"}, {"precision": "33-true"}])
def test_a_machine_that_cannot_be_had_is_told_in_words(wrong):
    with pytest.raises(InputError, match="cannot be had here"):
        Machine(**wrong).fabric()
