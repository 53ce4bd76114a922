"""A Ray cluster of two local workers, one of which is killed in the middle. About half a minute."""

import os
import re
import signal

import pytest

pytest.importorskip("ray")

from calmix.errors import InputError
from calmix.launch import Machine
from calmix.paper.cluster import Cluster, Parcel
from calmix.paper.tasks import OneByOne, Place, Task, divide
from calmix.progress import Silence
from calmix.run_folder import Run
from tests.paper.test_workers import finish
from tests.scenarios import tiny, weights

MACHINE = Machine(accelerator="cpu", save_seconds=0.1)
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray leaves sockets and processes to the collector


class KillFirst(Silence):
    """Kills the first worker that tells where it is at its first step."""

    def __init__(self):
        self.pids, self.places, self.killed = {}, [], None

    def note(self, text):
        if found := re.search(r"^(.*): on \S+, process (\d+)$", text):
            self.pids[found[1]] = int(found[2])
            self.places.append(found[1])

    def step(self, step):
        if self.killed is None and step.name in self.pids:
            self.killed = step.name
            os.kill(self.pids[step.name], signal.SIGKILL)


@pytest.mark.parametrize("pull", [False, True], ids=["shared storage", "files travel"])
def test_a_killed_worker_is_replaced_and_the_result_is_the_same(tmp_path, pull):
    recipe = tiny("deep", "camixup", epochs=50)
    killer = KillFirst()
    cluster = Cluster(Place(tmp_path / "ray", None, MACHINE), killer, cpus=0.5, pull=pull)
    with cluster:
        for task in divide(recipe, ()):
            cluster.submit(task)
        done = list(cluster.finished())
        cluster.submit(Task(recipe))
        done += cluster.finished()
    assert [d.error for d in done] == ["", "", ""]
    assert killer.killed is not None, "no worker told a step"
    assert killer.places.count(killer.killed) == 2, "the killed task was not started again"
    finish(OneByOne(Place(tmp_path / "here", None, MACHINE), Silence()), [Task(recipe)])
    there, here = (Run(tmp_path / name / recipe.name, recipe) for name in ("ray", "here"))
    assert weights(there) == weights(here)
    assert there.summary.read_text() == here.summary.read_text()


def test_a_parcel_holds_what_a_member_made_and_nothing_that_passes(tmp_path):
    for name in ("recipe.json", "members/0/checkpoint.pt", "members/1/checkpoint.pt", "members/1/.lock"):
        path = tmp_path / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    Parcel.of(tmp_path / "run", member=1).unpack(tmp_path / "home")
    Parcel.of(tmp_path / "run").unpack(tmp_path / "copy")
    Parcel.of(tmp_path / "nothing").unpack(tmp_path / "empty")
    found = {
        folder: sorted(p.relative_to(tmp_path / folder).as_posix() for p in (tmp_path / folder).rglob("*.*"))
        for folder in ("home", "copy", "empty")
    }
    member = "run/members/1/checkpoint.pt"
    assert found == {
        "home": [member],
        "copy": ["run/members/0/checkpoint.pt", member, "run/recipe.json"],
        "empty": [],
    }


def test_where_no_cluster_listens_is_said_at_once(tmp_path):
    cluster = Cluster(Place(tmp_path, None, MACHINE), Silence(), address="127.0.0.1:1")
    with pytest.raises(InputError, match=r"no Ray cluster listens at 127\.0\.0\.1:1"), cluster:
        pass
