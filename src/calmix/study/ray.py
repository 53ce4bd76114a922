"""Executor on a Ray cluster: an existing one, or one of this machine alone.

A task whose worker dies is started again by Ray and goes on from its checkpoint. The folder of runs is on
storage that all machines share; with `pull` it is not: a run's files travel with its tasks, and what a dead
worker leaves helps only the next one on its machine.
"""

import io
import os
import re
import secrets
import shutil
import socket
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calmix.errors import InputError
from calmix.progress import Event, Message, Progress, Reporter
from calmix.sources.archives import extract
from calmix.study.tasks import Context, Task, TaskResult, try_task
from calmix.threads import use_one_thread

RETRIES = 3
POLL_SECONDS = 0.5  # between two readings of the mailbox
CONNECT_SECONDS = 5.0  # in which a cluster must answer


class RayExecutor:
    """Runs tasks on a Ray cluster; `cpus` and `gpus` are the resources of a task."""

    def __init__(
        self,
        context: Context,
        reporter: Reporter,
        *,
        address: str | None = None,
        cpus: float = 1.0,
        gpus: float = 0.0,
        pull: bool = False,
    ) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise InputError("Ray is not installed: pip install 'calmix[cluster]'") from None
        self.ray: Any = ray
        self.context = replace(context, out=context.out.resolve())
        self.reporter, self.address, self.pull = reporter, address, pull
        self.resources = {"num_cpus": cpus, "num_gpus": gpus}
        self.running: dict[Any, Task] = {}

    def __enter__(self) -> "RayExecutor":
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        check_address(address)
        try:
            self.ray.init(address=address, log_to_driver=False, configure_logging=False, **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(f"Ray is not available at {address}: {str(error).splitlines()[0]}") from None
        self.mailbox = self.ray.remote(num_cpus=0)(ProgressMailbox).remote()
        self.work = self.ray.remote(max_retries=RETRIES, **self.resources)(work)
        return self

    def __exit__(self, *_: object) -> None:
        for reference in self.running:
            self.ray.cancel(reference, force=True)
        self.ray.shutdown()

    def submit(self, task: Task, *, first: bool = False) -> None:  # Ray has an order of its own
        parcel = Parcel.of(self.context.out / task.recipe.name) if self.pull else None
        self.running[self.work.remote(task, self.context, self.mailbox, parcel)] = task

    def results(self) -> Iterator[TaskResult]:
        while self.running:
            ended, _ = self.ray.wait(list(self.running), timeout=POLL_SECONDS)
            for event in self.ray.get(self.mailbox.take.remote()):
                self.reporter(event)
            for reference in ended:
                yield self._result(reference)

    def _result(self, reference: Any) -> TaskResult:
        task = self.running.pop(reference)
        try:
            result, parcel = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return TaskResult(task, str(error))
        if parcel:
            parcel.unpack(self.context.out)
        return result  # type: ignore[no-any-return]


def check_address(address: str) -> None:
    """Refuse an address at which no cluster answers: Ray itself waits for minutes."""
    match = re.fullmatch(r"(?:ray://)?([^/:]+):(\d+)", address)
    if not match:  # local, auto, or a form of Ray's own
        return
    try:
        socket.create_connection((match[1], int(match[2])), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"no Ray cluster answers at {address}: {error}") from None


class ProgressMailbox:
    """Events of the workers, until the driver takes them."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def put(self, event: Event) -> None:
        self.events.append(event)

    def take(self) -> list[Event]:
        events, self.events = self.events, []
        return events


@dataclass
class RayReporter:
    """Puts a worker's events into the mailbox, progress at most once a second."""

    mailbox: Any
    sent: float = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Progress):
            if time.monotonic() - self.sent < 1:
                return
            self.sent = time.monotonic()
        self.mailbox.put.remote(event)


@dataclass(frozen=True)
class Parcel:
    """The files of a run in transit between machines: a tar archive, empty where there are none yet."""

    name: str
    files: bytes

    @classmethod
    def of(cls, folder: Path, *, members: tuple[int, ...] | None = None) -> "Parcel":
        """A run's folder, or only some members of it; no locks and no unfinished files."""
        buffer = io.BytesIO()
        roots = [folder] if members is None else [folder / "members" / str(k) for k in members]
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path in sorted(path for root in roots for path in root.rglob("*")):
                if path.is_file() and not path.name.endswith((".lock", ".part")):
                    archive.add(path, path.relative_to(folder.parent))
        return cls(secrets.token_hex(8), buffer.getvalue())

    def unpack(self, out: Path) -> None:
        """Put the files below `out`; those that are there are replaced."""
        out.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(self.files)) as archive:
            extract(archive, out)


def work(
    task: Task, context: Context, mailbox: Any, parcel: Parcel | None
) -> tuple[TaskResult, Parcel | None]:
    """Run a task on a worker; returns the run's files if it came with some."""
    use_one_thread()
    reporter = RayReporter(mailbox)
    reporter(Message(f"on {socket.gethostname()}, process {os.getpid()}", task.name))
    if parcel is None:
        return try_task(task, context, reporter), None
    scratch = Path(tempfile.gettempdir()) / f"calmix-{parcel.name}"
    if not scratch.exists():  # else an earlier attempt of the same task has come further
        parcel.unpack(fresh := scratch.with_suffix(f".{os.getpid()}"))
        fresh.rename(scratch)
    result = try_task(task, replace(context, out=scratch), reporter)
    changed = Parcel.of(scratch / task.recipe.name, members=task.members)
    shutil.rmtree(scratch)
    return result, changed
