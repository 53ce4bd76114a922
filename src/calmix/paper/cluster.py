"""Tasks on a Ray cluster: an existing one, or one of this machine alone.

A task whose worker dies is started again by Ray and goes on from its checkpoint. The folder of runs is on
storage that all machines share; with `pull` it is not: a run's files travel with its tasks, and what a dead
worker leaves behind helps only the next one on its machine.
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
from types import TracebackType
from typing import Any

from calmix.data.archives import extract
from calmix.errors import InputError
from calmix.paper.tasks import Done, Place, Task, attempt
from calmix.progress import Listener, Step

RETRIES = 3
LISTEN = 0.5  # seconds between two rounds of listening
CONNECT = 5.0  # seconds in which a cluster must answer


class Cluster:
    """Hands that are the workers of a Ray cluster; `cpus` and `gpus` are what a task asks of one."""

    def __init__(
        self,
        place: Place,
        listener: Listener,
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
            raise InputError("--on ray needs Ray: pip install 'calmix[cluster]'") from None
        self.ray: Any = ray
        self.place = replace(place, out=place.out.resolve())
        self.listener, self.address, self.pull = listener, address, pull
        self.resources = {"num_cpus": cpus, "num_gpus": gpus}
        self.running: dict[Any, Task] = {}

    def __enter__(self) -> "Cluster":
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        require_listener(address)
        try:
            self.ray.init(address=address, log_to_driver=False, configure_logging=False, **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(f"Ray cannot be had at {address}: {str(error).splitlines()[0]}") from None
        self.ears = self.ray.remote(num_cpus=0)(Ears).remote()
        self.work = self.ray.remote(max_retries=RETRIES, **self.resources)(work)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reference in self.running:
            self.ray.cancel(reference, force=True)
        self.ray.shutdown()

    def submit(self, task: Task) -> None:
        parcel = Parcel.of(self.place.out / task.recipe.name) if self.pull else None
        self.running[self.work.remote(task, self.place, self.ears, parcel)] = task

    def finished(self) -> Iterator[Done]:
        while self.running:
            ended, _ = self.ray.wait(list(self.running), timeout=LISTEN)
            for said in self.ray.get(self.ears.heard.remote()):
                if isinstance(said, Step):
                    self.listener.step(said)
                else:
                    self.listener.note(said)
            for reference in ended:
                yield self._result(reference)

    def _result(self, reference: Any) -> Done:
        task = self.running.pop(reference)
        try:
            done, parcel = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return Done(task, str(error))
        if parcel:
            parcel.unpack(self.place.out)
        return done  # type: ignore[no-any-return]


def require_listener(address: str) -> None:
    """Ray itself waits for minutes where nobody listens."""
    match = re.fullmatch(r"(?:ray://)?([^/:]+):(\d+)", address)
    if not match:  # local, auto, or a form of Ray's own
        return
    try:
        socket.create_connection((match[1], int(match[2])), timeout=CONNECT).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"no Ray cluster listens at {address}: {error}") from None


class Ears:
    """Where workers say how far they are, until the driver asks."""

    def __init__(self) -> None:
        self.said: list[Step | str] = []

    def hear(self, what: Step | str) -> None:
        self.said.append(what)

    def heard(self) -> list[Step | str]:
        said, self.said = self.said, []
        return said


@dataclass
class Caller:
    """A listener on a worker. Between two notes it tells a step a second at most."""

    ears: Any
    told: float = 0.0

    def step(self, step: Step) -> None:
        if time.monotonic() - self.told >= 1:
            self.told = time.monotonic()
            self.ears.hear.remote(step)

    def note(self, text: str) -> None:
        self.ears.hear.remote(text)


@dataclass(frozen=True)
class Parcel:
    """The files of a run on their way between machines: a tar archive, empty where there are none yet."""

    name: str
    files: bytes

    @classmethod
    def of(cls, folder: Path, *, member: int | None = None) -> "Parcel":
        """A run's folder, or of it only what belongs to a member; no locks and no half-written files."""
        buffer = io.BytesIO()
        inside = folder if member is None else folder / "members" / str(member)
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path in sorted(inside.rglob("*")):
                if path.is_file() and not path.name.endswith((".lock", ".part")):
                    archive.add(path, path.relative_to(folder.parent))
        return cls(secrets.token_hex(8), buffer.getvalue())

    def unpack(self, out: Path) -> None:
        """Put the files below `out`; those that are there are replaced."""
        out.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(self.files)) as archive:
            extract(archive, out)


def work(task: Task, place: Place, ears: Any, parcel: Parcel | None) -> tuple[Done, Parcel | None]:
    """Do a task on a worker; returns the run's files if it came with some."""
    caller = Caller(ears)
    caller.note(f"{task.name}: on {socket.gethostname()}, process {os.getpid()}")
    if parcel is None:
        return attempt(task, place, caller), None
    scratch = Path(tempfile.gettempdir()) / f"calmix-{parcel.name}"
    if not scratch.exists():  # else an earlier attempt of the same task has come further
        parcel.unpack(fresh := scratch.with_suffix(f".{os.getpid()}"))
        fresh.rename(scratch)
    done = attempt(task, replace(place, out=scratch), caller)
    back = Parcel.of(scratch / task.recipe.name, member=task.member)
    shutil.rmtree(scratch)
    return done, back
