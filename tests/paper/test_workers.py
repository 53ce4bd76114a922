"""Several processes do the same tasks as one, and survive the death of one of them."""

import contextlib
import multiprocessing
import os
import signal

import pytest

from calmix.launch import Machine
from calmix.paper import workers
from calmix.paper.tasks import OneByOne, Place, Task, divide
from calmix.paper.workers import Workers
from calmix.progress import Silence
from calmix.run_folder import Run
from tests.scenarios import tiny, weights

MACHINE = Machine(accelerator="cpu", save_seconds=0.0)


def finish(hands, tasks):
    with hands:
        for task in tasks:
            hands.submit(task)
        return list(hands.finished())


class Killer(Silence):
    """Kills the process that tells the first steps, and keeps the notes."""

    def __init__(self, times):
        self.times, self.notes = times, []

    def step(self, step):
        if self.times:
            self.times -= 1
            for process in multiprocessing.active_children():
                os.kill(process.pid, signal.SIGKILL)

    def note(self, text):
        self.notes.append(text)


def test_a_killed_worker_is_replaced_and_its_run_goes_on(tmp_path):
    recipe = tiny("batch", "camixup")
    killer = Killer(1)
    done = finish(Workers(Place(tmp_path / "killed", None, MACHINE), killer, jobs=1), [Task(recipe)])
    assert [d.error for d in done] == [""]
    assert len(killer.notes) == 1
    assert "exit code -9; resuming it in another" in killer.notes[0]
    finish(OneByOne(Place(tmp_path / "whole", None, MACHINE), Silence()), [Task(recipe)])
    killed, whole = (Run(tmp_path / name / recipe.name, recipe) for name in ("killed", "whole"))
    assert weights(killed) == weights(whole)
    assert killed.summary.read_text() == whole.summary.read_text()


def test_two_workers_share_tasks_and_one_failure_stops_no_other(tmp_path):
    recipe = tiny("deep", epochs=1)
    bad = Task(tiny("single", learning_rate=1e30))
    tasks = [*divide(recipe, ()), bad]
    assert [task.member for task in tasks] == [0, 1, None]
    done = finish(Workers(Place(tmp_path, None, MACHINE), Silence(), jobs=2), tasks)
    errors = {d.task: d.error for d in done}
    assert "the loss is" in errors[bad]
    assert [errors[task] for task in tasks[:2]] == ["", ""]
    assert Run(tmp_path / recipe.name, recipe).trained
    assert not multiprocessing.active_children()


def test_a_task_that_kills_every_worker_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "RETRIES", 0)
    task = Task(tiny(epochs=2000))
    done = finish(Workers(Place(tmp_path, None, MACHINE), Killer(99), jobs=1), [task])
    assert "ended 1 times, the last with exit code -9" in done[0].error


class Interrupted(Silence):
    def step(self, step):
        raise KeyboardInterrupt


def test_an_interruption_ends_all_workers_and_keeps_what_was_done(tmp_path):
    recipe = tiny(epochs=2000)
    with contextlib.suppress(KeyboardInterrupt):
        finish(Workers(Place(tmp_path, None, MACHINE), Interrupted(), jobs=1), [Task(recipe)])
        pytest.fail("nobody interrupted it")
    assert not multiprocessing.active_children()
    assert (tmp_path / recipe.name / "recipe.json").exists()


def test_members_that_wait_for_each_other_are_one_task():
    assert divide(tiny("deep", "camixup", gap_of="pool"), ()) == [
        Task(tiny("deep", "camixup", gap_of="pool"))
    ]
    assert len(divide(tiny("deep", "camixup"), ())) == 2
    assert divide(tiny("batch"), ("fog",)) == [Task(tiny("batch"), None, ("fog",))]
