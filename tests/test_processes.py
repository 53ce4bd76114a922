"""Two processes share every batch and come out as one process that mixes within the same halves."""

import os

import pytest
import torch
import torch.multiprocessing as mp
from safetensors.torch import load_file

from tests.scenarios import mixed_epochs, tiny, trained


def work(rank, recipe, out, port):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GROUP_RANK": "0", "NODE_RANK": "0"}
    os.environ |= {"TORCHELASTIC_RUN_ID": "test"}
    trained(recipe, out, devices=2)
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("ensemble", "augment", "member_norm"),
    [("batch", "camixup", False), ("batch", "camixup", True), ("deep", "mixup", False)],
)
def test_two_processes_equal_one(tmp_path, ensemble, augment, member_norm):
    recipe = tiny(ensemble, augment, member_norm=member_norm, shards=2, epochs=2)
    one = trained(recipe, tmp_path / "one")
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.start_processes(work, args=(recipe, tmp_path / "two", port), nprocs=2, start_method="fork")
    two = type(one)(tmp_path / "two" / recipe.name, recipe)
    expected, found = load_file(one.model), load_file(two.model)
    assert expected.keys() == found.keys()
    for name in expected:
        torch.testing.assert_close(
            found[name], expected[name], rtol=1e-3, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
    if augment == "camixup":
        assert (mixed_epochs(one) == mixed_epochs(two)).all()
