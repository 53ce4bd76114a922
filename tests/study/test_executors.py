"""Several processes run the same tasks as one, and survive the death of one of them."""

import contextlib
import multiprocessing
import os
import signal
import time
from threading import Event

import lightning_fabric  # noqa: F401  (forked workers have it then)
import pytest

from calmix import interrupts
from calmix.progress import Message, Progress, ignore
from calmix.runs import checkpoint
from calmix.runs.folder import Run
from calmix.runs.launch import Machine
from calmix.study import executors
from calmix.study.executors import ProcessExecutor, SerialExecutor
from calmix.study.tasks import Context, Task, divide
from tests.scenarios import tiny, weights

MACHINE = Machine(accelerator="cpu", save_seconds=0.0)
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")


def run_tasks(executor, tasks):
    with executor:
        for task in tasks:
            executor.submit(task)
        return list(executor.results())


def context(out):
    return Context(out, machine=MACHINE)


def forked(out, reporter, *, jobs=1):
    """Workers that need not import torch anew, which takes seconds."""
    executor = ProcessExecutor(context(out), reporter, jobs=jobs)
    executor.multiprocessing = multiprocessing.get_context("fork")
    return executor


class KillWorker:
    """A reporter that kills the worker of the first progress events, and keeps the messages."""

    def __init__(self, times):
        self.times, self.messages = times, []

    def __call__(self, event):
        if isinstance(event, Message):
            self.messages.append(event)
        elif isinstance(event, Progress) and self.times:
            self.times -= 1
            for process in multiprocessing.active_children():
                os.kill(process.pid, signal.SIGKILL)


def test_a_killed_worker_is_replaced_and_its_run_goes_on(tmp_path):
    recipe, kill = tiny("batch", "camixup"), KillWorker(1)
    results = run_tasks(forked(tmp_path / "killed", kill), [Task(recipe)])
    assert [result.error for result in results] == [""]
    (death,) = [message for message in kill.messages if "exit code" in message.text]
    assert death == Message("its process ended with exit code -9; resuming it in another", Task(recipe).name)
    run_tasks(SerialExecutor(context(tmp_path / "whole"), ignore), [Task(recipe)])
    killed, whole = (Run(tmp_path / name / recipe.name, recipe) for name in ("killed", "whole"))
    assert weights(killed) == weights(whole)
    assert killed.summary == whole.summary


def test_a_task_that_kills_every_worker_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "RETRIES", 0)
    executor = forked(tmp_path, KillWorker(99))
    (result,) = run_tasks(executor, [Task(tiny(epochs=2000))])
    assert "ended 1 times, the last with exit code -9" in result.error


def test_two_workers_share_tasks_and_one_failure_stops_no_other(tmp_path):
    recipe = tiny("deep", epochs=1)
    bad = Task(tiny("single", learning_rate=1e30))
    tasks = [*divide(recipe, ()), bad]
    assert [task.members for task in tasks] == [(0,), (1,), None]
    results = run_tasks(forked(tmp_path, ignore, jobs=2), tasks)
    errors = {result.task: result.error for result in results}
    assert "the loss is" in errors[bad]
    assert [errors[task] for task in tasks[:2]] == ["", ""]
    assert Run(tmp_path / recipe.name, recipe).trained
    assert not multiprocessing.active_children()


def test_a_defect_in_a_worker_is_passed_on_with_its_traceback(tmp_path):
    task = Task(tiny(), members=3)  # which no caller should make
    (result,) = run_tasks(forked(tmp_path, ignore), [task])
    assert "Traceback" in result.error
    assert "TypeError" in result.error


def test_the_events_of_a_worker_arrive_under_the_name_of_its_task(tmp_path):
    events, task = [], Task(tiny(epochs=1))
    (result,) = run_tasks(ProcessExecutor(context(tmp_path), events.append, jobs=1), [task])
    assert result.error == ""
    assert any(isinstance(event, Progress) for event in events)
    assert {event.task for event in events} == {task.name}


def interrupt(event):
    if isinstance(event, Progress):
        raise KeyboardInterrupt


def test_an_interruption_ends_all_workers_and_keeps_what_was_done(tmp_path):
    recipe = tiny(epochs=2000)
    with contextlib.suppress(KeyboardInterrupt):
        run_tasks(forked(tmp_path, interrupt), [Task(recipe)])
        pytest.fail("nothing interrupted it")
    assert not multiprocessing.active_children()
    assert (tmp_path / recipe.name / "recipe.json").exists()


def test_more_may_be_submitted_while_results_arrive(tmp_path):
    first, second = Task(tiny(epochs=1)), Task(tiny(epochs=1, seed=8))
    with SerialExecutor(context(tmp_path), ignore) as executor:
        executor.submit(first)
        ended = []
        for result in executor.results():
            ended.append(result.task)
            if result.task == first:
                executor.submit(second)
    assert ended == [first, second]


def test_members_that_wait_for_each_other_are_one_task():
    coupled = tiny("deep", "camixup", gap_of="pool", members=3)
    assert divide(coupled, ()) == [Task(coupled)]
    assert [task.members for task in divide(coupled, (), jobs=2)] == [(0, 2), (1,)]
    assert [task.members for task in divide(coupled, (), jobs=9)] == [(0,), (1,), (2,)]
    assert [task.members for task in divide(tiny("deep", "camixup"), ("fog",))] == [(0,), (1,)]
    assert divide(tiny("batch"), ("fog",)) == [Task(tiny("batch"), None, ("fog",))]


def test_a_task_has_the_name_of_its_run_and_members():
    assert Task(tiny("deep", "mixup"), (0, 2)).name == "digits deep mixup seed 7 member 0, 2"
    assert Task(tiny()).name == "digits single none seed 7"


def test_an_error_of_files_is_told_with_its_path(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "/runs/checkpoint.pt")

    monkeypatch.setattr("calmix.study.tasks.train", full)
    (result,) = run_tasks(SerialExecutor(context(tmp_path), ignore), [Task(tiny())])
    assert (result.error, result.fatal) == ("/runs/checkpoint.pt: No space left on device", True)


def sleep_in_task(task, context, reporter):
    reporter(Message(str(os.getpid())))
    time.sleep(60)


def run_parent(out, pipe):
    def report(event):
        pipe.send(int(event.text))

    executors.try_task = sleep_in_task
    run_tasks(forked(out, report), [Task(tiny())])


def test_workers_end_when_their_parent_is_killed(tmp_path):
    ours, theirs = multiprocessing.Pipe()
    parent = multiprocessing.get_context("fork").Process(target=run_parent, args=(tmp_path, theirs))
    parent.start()
    assert ours.poll(30)
    worker = ours.recv()
    parent.kill()
    parent.join()
    deadline = time.monotonic() + 20
    while _runs(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(worker)


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_terminated_worker_writes_a_last_checkpoint(tmp_path):
    recipe = tiny(epochs=2000)
    machine = Machine(accelerator="cpu", save_seconds=1e9)
    executor = ProcessExecutor(Context(tmp_path, machine=machine), interrupt, jobs=1)
    executor.multiprocessing = multiprocessing.get_context("fork")
    with contextlib.suppress(KeyboardInterrupt):
        run_tasks(executor, [Task(recipe)])
    state = checkpoint.load(tmp_path / recipe.name)
    assert state["epoch"] + state["step"] > 0


def test_a_termination_that_was_lost_is_noticed(tmp_path, monkeypatch):
    """What a signal handler raises while a process is forked is printed and forgotten."""
    executor = forked(tmp_path, ignore)
    monkeypatch.setattr(interrupts, "_terminated", Event())
    interrupts._terminated.set()
    with pytest.raises(interrupts.Terminated):
        run_tasks(executor, [Task(tiny(epochs=2000))])
    assert not multiprocessing.active_children()
