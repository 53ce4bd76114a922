"""A whole run from Python with a network, data and a mixer that nobody here knows."""

import json
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import calmix
from calmix import InputError
from calmix.data import DataSet, Part
from calmix.progress import Message, ignore
from calmix.runs import api, code, own
from calmix.runs.folder import open_run
from calmix.runs.launch import Machine
from tests.own import FAST, arrays, write_code, write_npz
from tests.scenarios import Stop, StopAt, weights

CPU = Machine(accelerator="cpu")


@pytest.fixture
def folder(tmp_path):
    write_code(tmp_path)
    return tmp_path


def train(folder, *, kind="image", network="nets.py:make", reporter=ignore, **fields):
    path = folder / f"{kind}.npz"
    if not path.exists():
        write_npz(path, kind)
    fields = {"dataset": path, **FAST, **fields}
    if network is not None:
        fields["network"] = f"{folder}/{network}" if isinstance(network, str) else network
    return api.train(out=folder / "runs", machine=CPU, reporter=reporter, **fields)


def forget(monkeypatch):
    """As in another process."""
    monkeypatch.setattr(code, "_OBJECTS", {})
    monkeypatch.setattr(own, "_DATA", {})
    own._loaded.cache_clear()
    for name in [name for name in sys.modules if name.startswith("calmix_own_")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("ensemble", "augment", "members"),
    [("single", "none", 1), ("deep", "mixup", 2), ("batch", "augmix+camixup", 2), ("mc", "regmixup", 3)],
)
def test_every_ensemble_takes_a_convnet_on_images(folder, monkeypatch, ensemble, augment, members):
    fields = {"ensemble": ensemble, "augment": augment, "members": members}
    run = train(folder, network_options={"depth": 2, "width": 3}, **fields)
    assert run.folder.name.startswith(f"image-{ensemble}-{augment}-seed0-")
    assert run.predictions("test").logits.shape == (members, 20, 3)
    assert run.summary.clean.examples == 20
    assert [epoch.epoch for epoch in run.history][:2] == [1, 2]
    forget(monkeypatch)
    again = open_run(run.folder)  # from its file, whose digest is the recipe's
    assert again.recipe == run.recipe
    rows = torch.rand(2, 3, 9, 9)
    with torch.inference_mode():
        assert torch.equal(again.model()(rows), run.model()(rows))


def test_options_and_content_name_the_run_and_paths_do_not(folder, tmp_path_factory):
    def recipe(place, **fields):
        return api.make_recipe(
            network=f"{place}/nets.py:make", dataset=f"{place}/image.npz", **{**FAST, **fields}
        )

    write_npz(folder / "image.npz")
    first = recipe(folder)
    assert json.loads(first.to_json())["paths"] == {
        "network": str(folder / "nets.py"),
        "dataset": str(folder / "image.npz"),
    }
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write_code(elsewhere)
    write_npz(elsewhere / "image.npz")
    assert recipe(elsewhere) == first
    assert recipe(elsewhere).name == first.name
    assert recipe(folder, network_options={"depth": 2}).name != first.name
    (elsewhere / "nets.py").write_text((folder / "nets.py").read_text() + "# changed\n")
    assert recipe(elsewhere).name != first.name
    np.savez(elsewhere / "image.npz", **arrays() | {"y_test": np.zeros(20, int)})
    assert recipe(elsewhere).digests["dataset"] != first.digests["dataset"]


def test_it_resumes_and_returns(folder):
    with pytest.raises(Stop):
        train(folder, reporter=StopAt(3), epochs=4)
    run = train(folder, epochs=4)
    before = run.model_path.stat().st_mtime_ns
    assert train(folder, epochs=4).model_path.stat().st_mtime_ns == before


def test_a_changed_network_is_said(folder, monkeypatch):
    with pytest.raises(Stop):
        train(folder, reporter=StopAt(2))
    source = (folder / "nets.py").read_text()
    (folder / "nets.py").write_text(source + "\n# another comment\n")
    with pytest.raises(InputError, match=r"network nets.py:make has changed since .* was begun: restore it"):
        train(folder)
    (folder / "nets.py").write_text(source)
    run = train(folder)
    (folder / "nets.py").write_text(source + "\n# another comment\n")
    events = []
    other = train(folder, reporter=events.append)
    said = [event.text for event in events if isinstance(event, Message)]
    assert any(
        f"network nets.py:make has changed since {run.folder.name}: this is a new run" in t for t in said
    )
    assert other.folder != run.folder
    forget(monkeypatch)
    run.predictions_path("test").unlink()
    with pytest.raises(InputError, match=r"nets\.py has changed since the recipe was written"):
        run.model()
    with pytest.raises(InputError, match="has changed since the recipe was written"):
        api.evaluate(run.folder, reporter=ignore)
    with pytest.warns(UserWarning, match="is not the one of the recipe"):
        run.model(network=f"{folder}/nets.py:make")
    forget(monkeypatch)
    events = []
    api.evaluate(run, network=f"{folder}/nets.py:make", reporter=events.append)
    assert "is not the one of the recipe" in events[0].text


def test_changed_data_are_refused(folder, monkeypatch):
    run = train(folder)
    np.savez(folder / "image.npz", **arrays() | {"y_train": np.arange(60)[::-1] % 3})
    run.predictions_path("test").unlink()
    with pytest.raises(InputError, match=r"the content of .*image.npz has changed since the recipe"):
        api.evaluate(run, reporter=ignore)
    with pytest.raises(InputError, match="is not the one of the recipe"):
        api.evaluate(run, dataset=folder / "image.npz", reporter=ignore)
    write_npz(folder / "moved.npz")
    assert api.evaluate(run, dataset=folder / "moved.npz", reporter=ignore).clean.examples == 20


def test_functions_and_objects_from_a_notebook(folder, monkeypatch):
    def small_net(*, shape, num_classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], num_classes))

    values = arrays("vector")
    x, y = torch.from_numpy(values["x_train"]).float(), torch.from_numpy(values["y_train"])
    whole = DataSet("mine", ("a", "b", "c"), Part(x, y), Part(x[:9], y[:9]))
    run = train(folder, network=small_net, dataset=whole)
    assert run.folder.name.startswith("mine-single-none-seed0-")
    assert run.model()(x).shape == (1, 60, 3)
    assert api.evaluate(run, reporter=ignore).classes == ("a", "b", "c")
    forget(monkeypatch)
    with pytest.raises(InputError, match="'small_net' was given as a Python object"):
        run.model()
    assert run.model(network=small_net)(x).shape == (1, 60, 3)
    run.predictions_path("test").unlink()
    with pytest.raises(InputError, match="dataset 'mine' was given as a Python object"):
        api.evaluate(run, network=small_net, reporter=ignore)
    assert api.evaluate(run, network=small_net, dataset=whole, reporter=ignore).clean.examples == 9


def test_a_pair_of_torch_datasets(folder):
    values = arrays("vector")
    pair = [
        TensorDataset(torch.from_numpy(values[f"x_{part}"]).float(), torch.from_numpy(values[f"y_{part}"]))
        for part in ("train", "test")
    ]
    run = train(folder, network=None, dataset=tuple(pair), hidden=8, ensemble="deep", members=2)
    assert (run.recipe.network, run.recipe.standardise) == ("mlp", True)
    assert run.summary.clean.examples == 20


def test_a_loader_in_a_file(folder, monkeypatch):
    run = train(folder, network="nets.py:perceptron", dataset=f"{folder}/loader.py:load", augment="mixup")
    assert run.folder.name.startswith("loader-single-mixup")
    forget(monkeypatch)
    run.predictions_path("test").unlink()
    assert api.evaluate(run.folder, reporter=ignore).clean.examples == 20
    with pytest.raises(InputError, match=r"must return a calmix.data.DataSet, got NoneType"):
        train(folder, dataset=f"{folder}/loader.py:nothing")


def test_a_folder_of_images_by_its_path(folder):
    from PIL import Image

    rng = np.random.default_rng(0)
    for part, count in (("train", 12), ("val", 4)):
        for label, name in enumerate(("cat", "dog")):
            (folder / "pictures" / part / name).mkdir(parents=True)
            for i in range(count):
                image = (rng.integers(0, 100, (20, 24, 3)) + 100 * label).astype(np.uint8)
                Image.fromarray(image).save(folder / "pictures" / part / name / f"{i}.png")
    fields = {"image_size": 16, "validation_size": 4, "train_size": 20, "batch_size": 10}
    run = train(folder, dataset=str(folder / "pictures"), **fields)
    assert run.summary.classes == ("cat", "dog")
    assert run.folder.name.startswith("pictures-")


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (
            "nets.py:wrong_shape",
            r"must return logits \(2, 3\) for two examples of shape \(3, 9, 9\).*\(2, 4\)",
        ),
        ("nets.py:raises", r"called on \(2, 3, 9, 9\), raised RuntimeError: no such luck \(nets.py, line"),
        ("nets.py:no_module", "must return a torch.nn.Module, got int"),
        ("nets.py:looks_around", "treats an example otherwise at another place of the batch"),
        ("nets.py:perceptron", "raised RuntimeError"),
    ],
)
def test_a_network_is_checked_on_two_examples_before_training(folder, network, message):
    with pytest.raises(InputError, match=message):
        train(folder, network=network)
    assert not (folder / "runs").exists()


def test_options_that_the_network_does_not_take(folder):
    with pytest.raises(InputError, match=r"raised TypeError: .*unexpected keyword argument 'wdith'"):
        train(folder, network_options={"wdith": 3})


@pytest.mark.parametrize("name", ["make_mixer", "make_policy"])
def test_a_mixer_of_ones_own(folder, monkeypatch, name):
    run = train(folder, augment=f"augmix+{folder}/mixers.py:{name}", ensemble="batch", members=2)
    assert run.recipe.augment == f"augmix+mixers.py:{name}"
    assert run.folder.name.startswith("image-batch-augmix+mixers-seed0-")
    assert all(epoch.accuracy is not None for epoch in run.history)
    if name == "make_policy":
        assert run.history[0].mixed_classes == ((0, 1, 0), (0, 1, 0))


def test_a_mixer_that_fails(folder):
    with pytest.raises(
        InputError, match=r"mixing mixers.py:make_broken: .* raised KeyError.*checkpoint is kept"
    ):
        train(folder, augment=f"{folder}/mixers.py:make_broken")
    with pytest.raises(InputError, match="must return a calmix mixer, or a policy"):
        train(folder, augment=f"{folder}/mixers.py:make_nothing")


def test_adamw(folder):
    run = train(folder, optimiser="adamw")
    recipe = run.recipe
    assert (recipe.optimiser, recipe.schedule, recipe.learning_rate) == ("adamw", "cosine", 1e-3)
    assert api.make_recipe(dataset="digits", optimiser="adamw").learning_rate == 1e-3
    assert weights(run) != weights(train(folder, learning_rate=1e-3))


def test_unknown_fields_name_the_nearest(folder):
    with pytest.raises(InputError, match="unknown recipe field 'epoch'; did you mean 'epochs'"):
        calmix.train(epoch=3)
    with pytest.raises(InputError, match="unknown dataset 'cifar11'; did you mean 'cifar1"):
        calmix.train(dataset="cifar11")
    with pytest.raises(InputError, match="dataset must be a name, a path"):
        calmix.train(dataset=3)


def test_corruptions_only_where_they_apply(folder):
    run = train(folder, kind="vector", network="nets.py:perceptron")
    with pytest.raises(InputError, match=r"vector examples .* corruptions are of uint8 images"):
        calmix.evaluate(run, corruptions=True)
    run = train(folder)
    assert set(api.evaluate(run, corruptions=["fog"], reporter=ignore).corrupted) == {"fog"}


def test_groups_choose_what_is_mixed(folder):
    groups = {"groups_train": np.arange(60) % 2, "groups_test": np.arange(20) % 2}
    path = write_npz(folder / "grouped.npz", **groups)
    run = train(folder, dataset=path, augment="camixup", by_group=True)
    assert len(run.history[0].mixed_classes[0]) == 2


def test_validation_data_of_ones_own_are_used(folder):
    values = arrays()
    more = {"x_val": values["x_test"][:10], "y_val": values["y_test"][:10]}
    path = write_npz(folder / "three.npz", **more)
    run = train(folder, dataset=path)
    assert run.recipe.validation_size == 10
    assert run.predictions("validation").labels.tolist() == values["y_test"][:10].tolist()
    with pytest.raises(InputError, match="has 10 examples for validation"):
        train(folder, dataset=path, validation_size=11)


def test_progress_is_shown_in_plain_lines(folder, capsys):
    train(folder, reporter=None)
    lines = capsys.readouterr().err.splitlines()
    assert "image.npz: 60 training and 20 test examples (image 3x9x9), 3 classes; network=nets.py" in lines[0]
    assert lines[1].startswith("training: epoch 2/2")


def test_where_and_rows(folder):
    for seed in (0, 1):
        train(folder, seed=seed, ensemble="deep", members=2)
    train(folder, augment="mixup")
    runs = calmix.load_runs(folder / "runs")
    assert len(runs) == 3
    assert [run.recipe.seed for run in runs.where(ensemble="deep")] == [0, 1]
    assert len(runs.where(ensemble="deep", seed=1)) == 1
    assert len(runs.where(augment="mixup", dataset="image.npz")) == 1
    with pytest.raises(InputError, match="unknown recipe field 'ensembel'; did you mean 'ensemble'"):
        runs.where(ensembel="deep")
    rows = runs.rows()
    of = [row["of"] for row in rows if row["ensemble"] == "deep"]
    assert of[:3] == ["pool", "member 0", "member 1"]
    assert len(rows) == 2 * 3 + 2
    pool = next(row for row in rows if row["of"] == "pool")
    run = next(run for run in runs if run.folder.name == pool["run"])
    assert pool["ece"] == run.summary.clean.pool.ece
    assert pool["condition"] == "clean"
    pandas = pytest.importorskip("pandas")
    frame = runs.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == len(rows)


def test_a_missing_pandas_is_said(folder, monkeypatch):
    train(folder)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        calmix.load_runs(folder / "runs").to_frame()
