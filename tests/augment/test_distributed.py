"""Two processes with half the data each come to the state of one process with all of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import calmix
from calmix.augment import CAMixup, ForgettingMixup

EPOCHS, EXAMPLES, MEMBERS, CLASSES = 4, 40, 2, 3


def train(rank: int, processes: int) -> dict[str, torch.Tensor]:
    """A few epochs of what a loop reports to the mixers; the examples change hands every epoch."""
    generator = torch.Generator().manual_seed(0)
    camixup = CAMixup(CLASSES, members=MEMBERS, momentum=0.5)
    forgetting = ForgettingMixup(CLASSES, EXAMPLES, members=MEMBERS)
    labels = torch.arange(EXAMPLES) % CLASSES
    for epoch in range(EPOCHS):
        logits = torch.randn(MEMBERS, EXAMPLES, CLASSES, generator=generator)
        mine = torch.randperm(EXAMPLES, generator=generator)[rank::processes]
        for index in mine.split(7):
            forgetting.observe(logits[:, index], labels[index], index)
        if epoch == EPOCHS - 1:  # one process validates on all, the other on nothing
            mine = torch.arange(0 if rank else EXAMPLES)
        for index in mine.split(9):
            camixup.validate(logits[:, index], labels[index])
        camixup.update()
        forgetting.update()
    states = {"c": camixup.get_extra_state(), "f": forgetting.get_extra_state()}
    return {
        f"{name}.{key}": value
        for name, state in states.items()
        for key, value in {"history": state["history"], **state["where"]}.items()
    }


@pytest.mark.skipif(not dist.is_available(), reason="torch was built without torch.distributed")
def test_two_processes_hold_the_state_of_one(tmp_path):
    source = str(Path(calmix.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, __file__, str(tmp_path)]
    processes = [subprocess.Popen([*command, str(rank)], env=environment) for rank in range(2)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    alone = train(0, 1)
    assert alone["c.history"].any()
    assert alone["f.counts"].max() > 1
    for rank in range(2):
        state = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert state.keys() == alone.keys()
        for name, value in alone.items():
            torch.testing.assert_close(state[name], value, rtol=1e-12, atol=0, msg=name)


if __name__ == "__main__":
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    torch.save(train(rank, 2), folder / f"{rank}.pt")
    dist.destroy_process_group()
