"""A Ray cluster of two local workers, one of which is killed in the middle."""

import os
import re
import signal
import sys

import pytest

pytest.importorskip("ray")

from calmix.errors import InputError
from calmix.progress import Message, Progress, ignore
from calmix.runs.folder import Run
from calmix.runs.launch import Machine
from calmix.study.executors import SerialExecutor
from calmix.study.ray import Parcel, ProgressMailbox, RayExecutor
from calmix.study.tasks import Context, Task, divide
from tests.scenarios import tiny, weights

MACHINE = Machine(accelerator="cpu", save_seconds=0.1)
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray leaves sockets and processes to the collector


class KillFirst:
    """A reporter that kills the first worker that has named its process and made progress."""

    def __init__(self):
        self.processes, self.starts, self.killed = {}, [], None

    def __call__(self, event):
        if isinstance(event, Message) and (match := re.fullmatch(r"on \S+, process (\d+)", event.text)):
            self.processes[event.task] = int(match[1])
            self.starts.append(event.task)
        elif isinstance(event, Progress) and self.killed is None and event.task in self.processes:
            self.killed = event.task
            os.kill(self.processes[event.task], signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("pull", [False, True], ids=["shared storage", "files travel"])
def test_a_killed_worker_is_replaced_and_the_result_is_the_same(tmp_path, monkeypatch, pull):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # workers import this tree
    recipe, kill = tiny("deep", "camixup", epochs=50), KillFirst()
    with RayExecutor(Context(tmp_path / "ray", machine=MACHINE), kill, cpus=0.5, pull=pull) as executor:
        for task in divide(recipe, ()):
            executor.submit(task)
        results = list(executor.results())
        executor.submit(Task(recipe))
        results += executor.results()
    assert [result.error for result in results] == ["", "", ""]
    assert kill.killed is not None, "no worker reported progress"
    assert kill.starts.count(kill.killed) == 2, "the killed task was not started again"
    with SerialExecutor(Context(tmp_path / "here", machine=MACHINE), ignore) as executor:
        executor.submit(Task(recipe))
        assert [result.error for result in executor.results()] == [""]
    there, here = (Run(tmp_path / name / recipe.name, recipe) for name in ("ray", "here"))
    assert weights(there) == weights(here)
    assert there.summary == here.summary


def test_a_parcel_holds_the_files_of_members_and_no_locks_or_parts(tmp_path):
    names = ("recipe.json", "members/0/checkpoint.pt", "members/1/checkpoint.pt")
    passing = ("members/1/.lock", "members/1/.checkpoint.pt.0f.part")
    for name in (*names, *passing):
        path = tmp_path / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    Parcel.of(tmp_path / "run", members=(1,)).unpack(tmp_path / "one")
    Parcel.of(tmp_path / "run").unpack(tmp_path / "all")
    Parcel.of(tmp_path / "nothing").unpack(tmp_path / "empty")
    unpacked = {
        folder: sorted(
            p.relative_to(tmp_path / folder / "run").as_posix()
            for p in (tmp_path / folder).rglob("*")
            if p.is_file()
        )
        for folder in ("one", "all", "empty")
    }
    assert unpacked == {"one": ["members/1/checkpoint.pt"], "all": sorted(names), "empty": []}


def test_a_parcel_replaces_what_is_there(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.json").write_text("new")
    (tmp_path / "home" / "run").mkdir(parents=True)
    for name in ("recipe.json", "other"):
        (tmp_path / "home" / "run" / name).write_text("old")
    Parcel.of(tmp_path / "run").unpack(tmp_path / "home")
    assert [(tmp_path / "home" / "run" / name).read_text() for name in ("recipe.json", "other")] == [
        "new",
        "old",
    ]


def test_events_are_taken_once():
    mailbox = ProgressMailbox()
    mailbox.put(Message("a"))
    mailbox.put(Message("b"))
    assert mailbox.take() == [Message("a"), Message("b")]
    assert mailbox.take() == []


def test_an_address_without_a_cluster_is_refused_at_once(tmp_path):
    executor = RayExecutor(Context(tmp_path, machine=MACHINE), ignore, address="127.0.0.1:1")
    with pytest.raises(InputError, match=r"no Ray cluster answers at 127\.0\.0\.1:1"), executor:
        pass
