"""Child processes: forked with everything imported, with errors injected into their file operations."""

import builtins
import contextlib
import errno
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from calmix import cli

LIMIT_SECONDS = 120.0
WRITING = ("w", "a", "x", "+")


@dataclass
class Ended:
    """How a child ended: its exit code, negative for a signal, and what it printed."""

    code: int
    text: str
    seconds: float
    operations: int = 0


class Injection:
    """Counts the file operations below `folder`; at the n-th it kills the process or raises an error."""

    def __init__(self, folder: Path, at: int = 0, action: str = "count") -> None:
        self.folder, self.at, self.action = str(folder), at, action
        self.count = 0

    def install(self) -> None:
        for name in ("replace", "link", "unlink", "fsync", "mkdir", "rename"):
            setattr(os, name, self._wrapped(getattr(os, name), name == "fsync"))
        builtins.open = self._open(builtins.open)

    def operation(self, path: object = "") -> bool:
        """Count one; whether it is the one, where it does not end here."""
        self.count += 1
        if self.count != self.at:
            return False
        if self.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.action in ("ENOSPC", "EIO"):
            number = getattr(errno, self.action)
            # Errors of written bytes name no file.
            raise OSError(number, os.strerror(number), *([str(path)] if path else []))
        return True

    def _wrapped(self, function: Callable, everywhere: bool) -> Callable:
        def call(*arguments, **options):
            if everywhere or any(str(argument).startswith(self.folder) for argument in arguments):
                self.operation("" if everywhere else arguments[0])
            return function(*arguments, **options)

        return call

    def _open(self, function: Callable) -> Callable:
        def call(file, mode="r", *arguments, **options):
            ours = str(file).startswith(self.folder) and any(letter in mode for letter in WRITING)
            if ours:
                self.operation(file)
            opened = function(file, mode, *arguments, **options)
            return Written(opened, self) if ours and "b" in mode else opened

        return call


class Written:
    """A file whose writes are counted; one that is cut short leaves half of its bytes."""

    def __init__(self, file, injection: Injection) -> None:
        self._file, self._injection = file, injection

    def write(self, content):
        half = memoryview(content)[: len(memoryview(content)) // 2]
        if self._injection.count + 1 == self._injection.at:
            self._file.write(half)
            self._file.flush()
        self._injection.operation()
        return self._file.write(content)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)


class Child:
    """A forked process of its own session that runs `function` and exits as a command does."""

    def __init__(
        self, function: Callable[[], object], log: Path, *, injection: Injection | None = None
    ) -> None:
        self.log, self.started = log, time.monotonic()
        self.counter = log.with_suffix(".operations")
        sys.stdout.flush(), sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(function, injection)

    def _run(self, function: Callable[[], object], injection: Injection | None) -> None:
        code = 70
        try:
            os.setsid()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, 0)
            handle = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 1), os.dup2(handle, 2)
            sys.stdout, sys.stderr = (os.fdopen(n, "w", errors="backslashreplace") for n in (1, 2))
            if injection:
                injection.install()
            function()
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush(), sys.stderr.flush()
                if injection:
                    self.counter.write_text(str(injection.count))
            os._exit(code)

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, *, limit: float = LIMIT_SECONDS) -> Ended:
        deadline = time.monotonic() + limit
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                self.send(signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return Ended(-999, f"still running after {limit:.0f} s: " + self._text(), limit)
            time.sleep(0.005)
        operations = int(self.counter.read_text()) if self.counter.exists() else 0
        seconds = time.monotonic() - self.started
        return Ended(os.waitstatus_to_exitcode(status), self._text(), seconds, operations)

    def _text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def survivors(self) -> list[int]:
        """Other processes of the child's session."""
        pids = []
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = entry.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.pid and fields[0] != "Z" and int(entry.parent.name) != self.pid:
                    pids.append(int(entry.parent.name))
        return pids


def command(*words: object) -> Callable[[], None]:
    return lambda: cli.main([str(word) for word in words])
