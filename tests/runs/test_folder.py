import json
import multiprocessing
import os
import socket
import threading

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save

import calmix
from calmix import InputError
from calmix.runs.build import build_ensemble
from calmix.runs.folder import (
    Epoch,
    Run,
    create,
    epoch_line,
    find_runs,
    lock,
    open_run,
    read_epochs,
    read_recipe,
    write_epochs,
)
from calmix.runs.presets import preset
from tests.scenarios import tiny, trained

# As calmix 0.1 wrote it: options of the network beside the others, 0 for all, [] for none.
FIRST_EDITION = """
{
  "version": "0.1.0", "dataset": "digits", "scale": "laptop", "seed": 0, "train_size": 0,
  "validation_size": 300, "train_on_validation": false, "test_size": 0, "corruption_size": 0,
  "image_size": 224, "network": "small_resnet", "depth": 28, "width": 16, "dropout": 0.0,
  "filterwise_dropout": false, "ensemble": "batch", "members": 4, "init_std": 0.5, "sign_probability": 0.0,
  "member_norm": false, "pad": 1, "flip": false, "transform": "none", "severity": 3.0, "augmix_alpha": 1.0,
  "augmix_clean_first": false, "consistency": 0.0, "mixing": "camixup", "alpha": 1.0, "gap_of": "member",
  "partner": "permutation", "fold": false, "forgetting_rule": "own", "smoothing": 0.0, "by_group": false,
  "epochs": 60, "batch_size": 64, "learning_rate": 0.1, "weight_decay": 0.0002, "schedule": "one-cycle",
  "warmup_epochs": 0.0, "decay_epochs": [], "decay_ratio": 0.1, "shards": 1, "mean": [0.3], "std": [0.38]
}
"""
EPOCH = Epoch(0, 1, 2.5, 0.25, 0.5, 0.1, -0.1, (-0.1, 0.2), 0.25, ((0, 1), (0, 0)))


def test_a_folder_holds_its_recipe_and_version(tmp_path):
    recipe = tiny("deep", "camixup")
    run = create(recipe, tmp_path)
    assert run.folder == tmp_path / recipe.name
    assert open_run(run.folder) == run
    written = json.loads((run.folder / "recipe.json").read_text())
    assert (written["version"], written["seed"]) == (calmix.__version__, 7)
    assert run.stream_folder(1).is_dir()
    assert create(recipe, tmp_path) == run
    assert create(tiny(), tmp_path).stream_folder(0) == tmp_path / tiny().name


def test_runs_are_found_in_folders(tmp_path):
    runs = [create(tiny(ensemble), tmp_path) for ensemble in ("deep", "single")]
    assert find_runs([tmp_path]) == runs
    assert find_runs([runs[1].folder]) == [runs[1]]
    assert find_runs([tmp_path, runs[0].folder]) == runs  # each once
    with pytest.raises(InputError, match="holds no run"):
        find_runs([runs[0].stream_folder(0)])
    with pytest.raises(InputError, match="no such folder"):
        find_runs([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="name at least one run folder"):
        find_runs([])


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(InputError, match=r"has no recipe\.json"):
        open_run(tmp_path)
    for text, message in (
        ("{broken", "cannot be read as JSON"),
        ("[]", "must hold an object of recipe fields"),
        ('{"epochs": 0}', r"recipe\.json: epochs must be at least 1"),
        ('{"epoch": 1}', "did you mean 'epochs'"),
    ):
        (tmp_path / "recipe.json").write_text(text)
        with pytest.raises(InputError, match=message):
            open_run(tmp_path)


def test_one_unreadable_folder_does_not_hide_the_others(tmp_path):
    good, bad = create(tiny(), tmp_path), create(tiny("deep"), tmp_path)
    (bad.folder / "recipe.json").write_text("{broken")
    messages = []
    assert find_runs([tmp_path], reporter=lambda event: messages.append(event.text)) == [good]
    assert "cannot be read as JSON" in messages[0]
    with pytest.raises(InputError, match="cannot be read as JSON"):
        find_runs([bad.folder])
    (good.folder / "recipe.json").write_text("[]")
    with pytest.raises(InputError, match=r"no recipe\.json there can be read"):
        find_runs([tmp_path])


def test_a_recipe_of_the_first_edition(tmp_path):
    (tmp_path / "recipe.json").write_text(FIRST_EDITION)
    recipe = open_run(tmp_path).recipe
    assert recipe == preset("digits", "batch", "camixup", scale="laptop")
    assert recipe.network_options == {"width": 16, "mean": [0.3], "std": [0.38]}
    assert recipe.train_size is recipe.test_size is recipe.corruption_size is recipe.sign_probability is None


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (
            {"network": "wide_resnet", "width": 10, "dropout": 0.1, "filterwise_dropout": True},
            {"depth": 28, "width": 10, "dropout": 0.1, "filterwise": True, "mean": [0.3], "std": [0.38]},
        ),
        ({"network": "mlp", "mean": [], "std": []}, {"hidden": 16}),
        ({"network": "resnet50"}, {"mean": [0.3], "std": [0.38]}),
        ({"mean": [], "std": []}, {"width": 16}),
    ],
)
def test_networks_of_the_first_edition(tmp_path, change, options):
    (tmp_path / "recipe.json").write_text(json.dumps(json.loads(FIRST_EDITION) | change))
    assert read_recipe(tmp_path / "recipe.json").network_options == options


def test_sizes_and_signs_of_the_first_edition(tmp_path):
    sizes = {"train_size": 100, "test_size": 50, "corruption_size": 20, "sign_probability": 0.5}
    (tmp_path / "recipe.json").write_text(json.dumps(json.loads(FIRST_EDITION) | sizes))
    recipe = read_recipe(tmp_path / "recipe.json")
    assert {name: getattr(recipe, name) for name in sizes} == sizes


def test_epochs_are_read_back_and_damaged_lines_passed_over(tmp_path):
    run = create(tiny("batch", "camixup"), tmp_path)
    path = run.folder / "metrics.jsonl"
    assert run.history == []
    write_epochs(path, [EPOCH, EPOCH])
    assert run.history == [EPOCH, EPOCH]
    lines = [b'{"member": 0, "epo', b"3", b'{"epoch": 1}', epoch_line(EPOCH).strip(), b"null"]
    path.write_bytes(b"\n".join(lines))
    assert run.history == [EPOCH]
    path.write_bytes(b"\xff\xfe")
    assert run.history == []


def test_the_epochs_of_an_unfinished_deep_ensemble_are_those_of_its_members(tmp_path):
    run = create(tiny("deep"), tmp_path)
    (run.stream_folder(1) / "metrics.jsonl").write_bytes(epoch_line(EPOCH))
    assert run.history == [EPOCH]
    write_epochs(run.folder / "metrics.jsonl", [EPOCH, EPOCH])
    assert len(run.history) == 2


def test_an_epoch_of_the_first_edition(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(
        '{"member": 0, "epoch": 1, "loss": 2.9, "accuracy": 0.09, "ece": 0.1, "gap_pool": -0.1, '
        '"gap_members": [-0.08, -0.2], "mixed": 0.82, "seconds": 0.24}\n'
    )
    (epoch,) = read_epochs(tmp_path / "metrics.jsonl")
    assert (epoch.mixed, epoch.mixed_classes) == (0.82, None)


def test_a_run_without_weights_or_numbers_says_what_to_do(tmp_path):
    run = create(tiny(), tmp_path)
    assert not run.trained
    with pytest.raises(InputError, match="is not trained yet: run `calmix train`"):
        run.model()
    with pytest.raises(InputError, match="is not evaluated yet: run `calmix evaluate`"):
        _ = run.summary
    with pytest.raises(InputError, match=r"test\.npz"):
        run.predictions("test")


def test_weights_come_back(tmp_path):
    run = create(tiny("batch"), tmp_path)
    model = build_ensemble(run.recipe, (1, 8, 8), 10)
    run.write_model(model, (1, 8, 8), 10)
    again = run.model()
    assert not again.training
    images = torch.rand(3, 1, 8, 8)
    assert torch.equal(again(images), model.eval()(images))


@pytest.mark.parametrize("content", ["wider", "part", "empty"])
def test_weights_of_another_recipe_are_refused(tmp_path, content):
    run, wider = create(tiny(), tmp_path), create(tiny(width=8), tmp_path)
    for each in (run, wider):
        each.write_model(build_ensemble(each.recipe, (1, 8, 8), 10), (1, 8, 8), 10)
    own = run.model_path.read_bytes()
    contents = {"wider": wider.model_path.read_bytes(), "part": own[:100], "empty": b""}
    run.model_path.write_bytes(contents[content])
    with pytest.raises(InputError, match=r"does not hold the weights of its recipe\.json"):
        run.model()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write to .*; choose another folder"):
        create(tiny(), tmp_path / "file")


def test_a_second_owner_is_refused_and_the_first_named(tmp_path):
    with lock(tmp_path):
        owner = rf"another process \({os.getpid()} on {socket.gethostname()}\) is at work on"
        with pytest.raises(InputError, match=owner), lock(tmp_path):
            pass
    with lock(tmp_path):
        pass


def test_a_process_that_waits_goes_on_when_the_folder_is_free(tmp_path):
    entered, order = threading.Event(), []

    def second():
        entered.wait()
        with lock(tmp_path, wait=True):
            order.append("second")

    waiting = threading.Thread(target=second)
    waiting.start()
    with lock(tmp_path):
        entered.set()
        waiting.join(0.2)
        assert waiting.is_alive()
        order.append("first")
    waiting.join(5)
    assert order == ["first", "second"]


def _hold(folder, ready):
    with lock(folder):
        ready.set()
        threading.Event().wait()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_the_lock_of_a_dead_process_is_free(tmp_path):
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=_hold, args=(tmp_path, ready))
    process.start()
    ready.wait(10)
    with pytest.raises(InputError, match=rf"another process \({process.pid} on "), lock(tmp_path):
        pass
    process.kill()
    process.join()
    with lock(tmp_path):
        pass


def test_where_predictions_are(tmp_path):
    assert Run(tmp_path, tiny()).predictions_path("fog-3") == tmp_path / "predictions" / "fog-3.npz"


def test_weights_carry_a_digest_that_is_checked(tmp_path):
    run = trained(tiny(epochs=1), tmp_path)
    run.model()
    content = bytearray(run.model_path.read_bytes())
    content[-5] ^= 1
    run.model_path.write_bytes(bytes(content))
    with pytest.raises(
        InputError, match="its digest does not match its weights, so it is damaged; remove it"
    ):
        run.model()


def test_weights_of_earlier_versions_have_no_digest(tmp_path):
    run = trained(tiny(epochs=1), tmp_path)
    with safe_open(run.model_path, framework="pt") as file:
        task = json.loads(file.metadata()["task"])
    del task["digest"]
    run.model_path.write_bytes(save(load_file(run.model_path), {"task": json.dumps(task)}))
    run.model()


@pytest.mark.parametrize(
    "task",
    [
        {"shape": [10**9, 8, 8], "num_classes": 10},
        {"shape": [1, 8, 8], "num_classes": 2**40},
        {"shape": "abc", "num_classes": 10},
        {"shape": None, "num_classes": 10},
        {"shape": [1, 8, 8], "num_classes": 2**30},
        [],
        7,
    ],
    ids=str,
)
def test_a_file_of_weights_that_names_another_task(tmp_path, task):
    run = trained(tiny(epochs=1), tmp_path)
    run.model_path.write_bytes(save(load_file(run.model_path), {"task": json.dumps(task)}))
    with pytest.raises(InputError, match="does not hold the weights"):
        run.model()


def test_two_processes_may_create_a_run_at_once(tmp_path, monkeypatch):
    """The other has written the recipe, holds the lock, and has removed this one's temporary file."""
    recipe, replace = tiny(), os.replace

    def swept(part, path):
        monkeypatch.setattr("os.replace", replace)
        create(recipe, tmp_path)
        with lock(tmp_path / recipe.name):
            assert not os.path.exists(part)
        replace(part, path)

    monkeypatch.setattr("os.replace", swept)
    run = create(recipe, tmp_path)
    assert read_recipe(run.folder / "recipe.json") == recipe
    assert not list(run.folder.glob(".*.part"))
