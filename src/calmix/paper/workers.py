"""Tasks in several processes of this machine.

Each worker has a pipe of its own: one that is killed in the middle of a word leaves nothing locked for the
others. It is replaced, and its task, which resumes from its checkpoint, is tried again.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from calmix.paper.tasks import Done, Place, Task, attempt
from calmix.progress import Listener, Step

RETRIES = 2


@dataclass
class Worker:
    """A process, the end of its pipe, and what it is at work on."""

    process: Any
    pipe: Connection
    task: Task | None = None


class Workers:
    """Hands that are `jobs` processes of one thread each; they live as long as there are tasks."""

    def __init__(self, place: Place, listener: Listener, *, jobs: int) -> None:
        self.place, self.listener, self.jobs = place, listener, jobs
        self.context = multiprocessing.get_context("spawn")
        self.workers: list[Worker] = []
        self.waiting: list[Task] = []
        self.deaths: Counter[Task] = Counter()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join()
            worker.pipe.close()
        self.workers.clear()

    def submit(self, task: Task) -> None:
        self.waiting.append(task)

    def finished(self) -> Iterator[Done]:
        while self.waiting or any(worker.task for worker in self.workers):
            self._hand_out()
            busy = {worker.pipe: worker for worker in self.workers if worker.task}
            for pipe in multiprocessing.connection.wait(list(busy)):
                if done := self._hear(busy[pipe]):  # type: ignore[index]
                    yield done

    def _hand_out(self) -> None:
        """Give the tasks that wait to workers that rest; start workers while there are too few."""
        while self.waiting:
            worker = next((worker for worker in self.workers if not worker.task), None)
            if worker is None:
                if len(self.workers) == self.jobs:
                    return
                worker = self._start()
            worker.task = self.waiting.pop(0)
            with contextlib.suppress(OSError):  # one that has died is noticed when it is listened to
                worker.pipe.send(worker.task)

    def _start(self) -> Worker:
        mine, its = self.context.Pipe()
        process = self.context.Process(target=work, args=(its, self.place))
        process.start()
        its.close()
        self.workers.append(Worker(process, mine))
        return self.workers[-1]

    def _hear(self, worker: Worker) -> Done | None:
        try:
            said = worker.pipe.recv()
        except (EOFError, OSError):
            return self._bury(worker)
        if isinstance(said, Done):
            worker.task = None
            return said
        if isinstance(said, Step):
            self.listener.step(said)
        else:
            self.listener.note(said)
        return None

    def _bury(self, worker: Worker) -> Done | None:
        """A worker died: its task goes back to the front, unless it has killed too many."""
        task = worker.task
        assert task is not None
        worker.process.join()
        worker.pipe.close()
        self.workers.remove(worker)
        self.deaths[task] += 1
        code = worker.process.exitcode
        if self.deaths[task] > RETRIES:
            return Done(task, f"its process ended {self.deaths[task]} times, the last with exit code {code}")
        self.listener.note(f"{task.name}: its process ended with exit code {code}; resuming it in another")
        self.waiting.insert(0, task)
        return None


@dataclass(frozen=True)
class Teller:
    """A listener that tells the parent process; where that has died, so does this one."""

    pipe: Connection

    def step(self, step: Step) -> None:
        if step.text or int(step.done) % 8 == 0:
            self._tell(step)

    def note(self, text: str) -> None:
        self._tell(text)

    def _tell(self, what: Step | str) -> None:
        try:
            self.pipe.send(what)
        except OSError:
            os._exit(1)


def work(pipe: Connection, place: Place) -> None:
    """Do tasks until the pipe ends. Ctrl-C is for the parent, which then ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    teller = Teller(pipe)
    while True:
        try:
            task: Task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            done = attempt(task, place, teller)
        except Exception:
            done = Done(task, traceback.format_exc())
        pipe.send(done)
