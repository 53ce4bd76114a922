"""One benchmark in a process of its own: it cannot end, block or slow down the others."""

import contextlib
import importlib
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

from benchmarks.page import Section
from benchmarks.timing import Row

END = "end"
OUT_OF_TIME = "out of time"
POLL_SECONDS = 60.0


def run(name: str, *, full: bool, seconds: float, show: Callable[[Row | str], None]) -> Section:
    """Measure for at most so many `seconds`; `show` sees every row at once.

    The processes are forked from a server that has torch imported, which takes seconds each time otherwise.
    One that fails or takes too long keeps the rows that it has, and says why there are no more.
    """
    section = Section(name)
    if seconds <= 0:
        section.failure = OUT_OF_TIME
        return section
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "benchmarks.timing"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(name, full, theirs))
    start = time.monotonic()
    process.start()
    theirs.close()
    try:
        section.failure = _receive(ours, section, start + seconds, show)
    finally:
        process.join(1)
        _end_group(process.pid)
        process.kill()
        process.join()
        section.seconds = time.monotonic() - start
    return section


def _receive(pipe: Connection, section: Section, deadline: float, show: Callable[[Row | str], None]) -> str:
    """Rows until the end; why they ended too early, or an empty text."""
    while (left := deadline - time.monotonic()) > 0:
        if not pipe.poll(min(left, POLL_SECONDS)):
            continue
        try:
            kind, content = pipe.recv()
        except EOFError:
            return "its process was ended"
        if kind == END:
            return str(content)
        section.content.append(content)
        show(content)
    return OUT_OF_TIME


def measure(name: str, full: bool, pipe: Connection) -> None:
    """In the process: send each row as it is measured, and at last an error's text, or an empty one."""
    os.setsid()  # its own processes can be ended with it
    import torch

    from calmix.memory import keep_freed_memory, seldom_garbage_collection

    torch.set_num_threads(1)
    keep_freed_memory()  # as the commands do
    failure = ""
    try:
        with seldom_garbage_collection():
            for content in importlib.import_module(f"benchmarks.{name}").rows(full):
                pipe.send(("row", content))
    except Exception as error:
        traceback.print_exc()
        failure = f"it failed with {type(error).__name__}"  # the text may have paths of this machine
    pipe.send((END, failure))


def _end_group(pid: int | None) -> None:
    """End what a process has started, which is in its group."""
    if pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
