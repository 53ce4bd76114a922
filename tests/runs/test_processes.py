"""Two processes share every batch and come out as one process that mixes within the same halves."""

import os
import socket

import pytest
import torch
import torch.multiprocessing as mp
from safetensors.torch import load_file

from calmix.runs.folder import Run
from tests.scenarios import tiny, trained


def work(rank, recipe, out, port):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GROUP_RANK": "0", "NODE_RANK": "0"}
    os.environ |= {"TORCHELASTIC_RUN_ID": "test"}
    trained(recipe, out, devices=2)
    torch.distributed.destroy_process_group()


def train_in_two_processes(recipe, out):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.start_processes(work, args=(recipe, out, port), nprocs=2, start_method="fork")
    return Run(out / recipe.name, recipe)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("ensemble", "augment", "fields"),
    [
        ("batch", "camixup", {}),
        ("batch", "camixup", {"member_norm": True}),
        ("batch", "forgetting", {}),
        ("deep", "mixup", {}),
        # Masks are drawn for each shard, whichever process has it.
        ("mc", "camixup", {"dropout": 0.3}),
        ("deep", "none", {"dropout": 0.3, "consistency": 2.0, "transform": "augmix"}),
        ("batch", "none", {"dropout": 0.3}),
    ],
)
def test_two_processes_equal_one(tmp_path, ensemble, augment, fields):
    recipe = tiny(ensemble, augment, shards=2, epochs=2, **fields)
    one, two = trained(recipe, tmp_path / "one"), train_in_two_processes(recipe, tmp_path / "two")
    expected, weights = load_file(one.model_path), load_file(two.model_path)
    assert expected.keys() == weights.keys()
    for name in expected:
        torch.testing.assert_close(
            weights[name], expected[name], rtol=1e-3, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
    for first, second in zip(one.history, two.history, strict=True):
        assert (first.member, first.epoch, first.mixed) == (second.member, second.epoch, second.mixed)
        assert first.mixed_classes == second.mixed_classes
        assert first.accuracy == pytest.approx(second.accuracy)


@pytest.mark.filterwarnings("ignore")
def test_shards_are_part_of_the_recipe_where_there_are_more_processes(tmp_path):
    recipe = tiny(epochs=1)
    train_in_two_processes(recipe, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [recipe.replace(shards=2).name]
