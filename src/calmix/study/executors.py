"""Executors: tasks one after the other, or in several processes of this machine.

Each worker has a pipe of its own: one that is killed in the middle of a message blocks no other. It is
replaced, and its task, which resumes from its checkpoint, is tried again.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Protocol

from calmix import interrupts
from calmix.interrupts import GRACE_SECONDS
from calmix.progress import Event, Message, Progress, Reporter
from calmix.study.tasks import Context, Task, TaskResult, try_task
from calmix.workers import init_worker, share_cpus

RETRIES = 2
SECONDS_BETWEEN_REPORTS = 0.1
POLL_SECONDS = 1.0


class Executor(Protocol):
    """Runs tasks: in this process, in several, or on a cluster; `reporter` receives their events."""

    reporter: Reporter

    def __enter__(self) -> "Executor": ...

    def __exit__(self, *_: object) -> None: ...

    def submit(self, task: Task, *, first: bool = False) -> None:
        """Queue a task; tasks start in the order of submission, `first` ones before all that wait."""

    def results(self) -> Iterator[TaskResult]:
        """Tasks as they end, until none is left; meanwhile more may be submitted."""


class SerialExecutor:
    """Runs one task after the other, in this process."""

    def __init__(self, context: Context, reporter: Reporter) -> None:
        self.context, self.reporter = context, reporter
        self.queue: list[Task] = []

    def __enter__(self) -> "SerialExecutor":
        return self

    def __exit__(self, *_: object) -> None:
        self.queue.clear()

    def submit(self, task: Task, *, first: bool = False) -> None:
        self.queue.insert(0 if first else len(self.queue), task)

    def results(self) -> Iterator[TaskResult]:
        while self.queue:
            yield try_task(self.queue.pop(0), self.context, self.reporter)


@dataclass
class Worker:
    """A process, this end of its pipe, and the task it runs."""

    process: Any
    pipe: Connection
    task: Task | None = None


class ProcessExecutor:
    """Runs tasks in `jobs` processes of one thread each, which live as long as there are tasks."""

    def __init__(self, context: Context, reporter: Reporter, *, jobs: int) -> None:
        self.context, self.reporter, self.jobs = context, reporter, jobs
        self.multiprocessing = multiprocessing.get_context("spawn")
        self.workers: list[Worker] = []
        self.queue: list[Task] = []
        self.deaths: Counter[Task] = Counter()

    def __enter__(self) -> "ProcessExecutor":
        return self

    def __exit__(self, *_: object) -> None:
        self.workers = [worker for worker in self.workers if worker.process.pid is not None]
        for worker in self.workers:
            worker.process.terminate()
        # They write a last checkpoint; one that does not end is not waited for.
        deadline = time.monotonic() + GRACE_SECONDS + 5
        for worker in self.workers:
            worker.process.join(max(0.1, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
        self.workers.clear()

    def submit(self, task: Task, *, first: bool = False) -> None:
        self.queue.insert(0 if first else len(self.queue), task)

    def results(self) -> Iterator[TaskResult]:
        while self.queue or any(worker.task for worker in self.workers):
            self._assign_tasks()
            busy = {worker.pipe: worker for worker in self.workers if worker.task}
            interrupts.check()
            for pipe in multiprocessing.connection.wait(list(busy), timeout=POLL_SECONDS):
                if result := self._receive(busy[pipe]):  # type: ignore[index]
                    yield result

    def _assign_tasks(self) -> None:
        """Send queued tasks to idle workers; start workers while there are too few."""
        while self.queue:
            worker = next((worker for worker in self.workers if not worker.task), None)
            if worker is None:
                if len(self.workers) == self.jobs:
                    return
                worker = self._start_worker()
            worker.task = self.queue.pop(0)
            with contextlib.suppress(OSError):  # a dead worker is noticed when its pipe is read
                worker.pipe.send(worker.task)

    def _start_worker(self) -> Worker:
        ours, theirs = self.multiprocessing.Pipe()
        process = self.multiprocessing.Process(target=work, args=(theirs, self.context, self.jobs))
        self.workers.append(Worker(process, ours))  # first: an interruption of the start must end it too
        with interrupts.held():
            process.start()
        theirs.close()
        return self.workers[-1]

    def _receive(self, worker: Worker) -> TaskResult | None:
        try:
            received = worker.pipe.recv()
        except (EOFError, OSError):
            return self._on_worker_death(worker)
        if isinstance(received, TaskResult):
            worker.task = None
            return received
        self.reporter(received)
        return None

    def _on_worker_death(self, worker: Worker) -> TaskResult | None:
        """Put the task of a dead worker back to the front, unless it has ended too many workers."""
        task = worker.task
        assert task is not None
        worker.process.join()
        worker.pipe.close()
        self.workers.remove(worker)
        self.deaths[task] += 1
        code = worker.process.exitcode
        if self.deaths[task] > RETRIES:
            times = f"{self.deaths[task]} times"
            return TaskResult(task, f"its process ended {times}, the last with exit code {code}")
        self.reporter(Message(f"its process ended with exit code {code}; resuming it in another", task.name))
        self.queue.insert(0, task)
        return None


@dataclass
class PipeReporter:
    """Sends events to the parent process, progress at most ten times a second; ends with the parent."""

    pipe: Connection
    sent: dict[str, float] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Progress):
            now = time.monotonic()
            if now - self.sent.get(event.task, 0.0) < SECONDS_BETWEEN_REPORTS:
                return
            self.sent[event.task] = now
        try:
            self.pipe.send(event)
        except OSError:
            os._exit(1)


def work(pipe: Connection, context: Context, jobs: int = 1) -> None:
    """Run tasks until the pipe or the parent ends. Ctrl-C is for the parent, which then ends its workers with
    SIGTERM: after a last checkpoint."""
    init_worker()
    share_cpus(jobs)
    try:
        with interrupts.raising():
            _work(pipe, context)
    except interrupts.Terminated:
        os._exit(143)


def _work(pipe: Connection, context: Context) -> None:
    reporter = PipeReporter(pipe)
    while True:
        try:
            task: Task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            result = try_task(task, context, reporter)
        except Exception:
            result = TaskResult(task, traceback.format_exc())
        interrupts.check()  # an error may be what became of the signal
        pipe.send(result)
