"""Memory: what is free, and settings that keep freed memory and collect garbage seldom."""

import contextlib
import ctypes
import gc
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

TRIM_THRESHOLD = -1  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
MMAP_THRESHOLD = -3


def keep_freed_memory() -> None:
    """Make glibc keep up to 1 GiB of freed memory, in this process and its child processes.

    By default it returns the memory of a batch to the system and requests it again for the next; the system
    zeroes every page, which took a quarter to a third of the time of `small_resnet`'s inference and a tenth
    of its training (docs/log.md). Single blocks above 64 MiB are still returned at once. Environment
    variables take precedence, and other C libraries are not changed.
    """
    for name, option, size in (
        ("MALLOC_TRIM_THRESHOLD_", TRIM_THRESHOLD, 2**30),
        ("MALLOC_MMAP_THRESHOLD_", MMAP_THRESHOLD, 2**26),
    ):
        if sys.platform == "linux" and name not in os.environ:
            os.environ[name] = str(size)
            with contextlib.suppress(AttributeError):  # musl has no mallopt
                ctypes.CDLL(None).mallopt(option, size)


@contextlib.contextmanager
def seldom_garbage_collection(objects: int = 10_000) -> Iterator[None]:
    """Look for unreachable cycles after so many new objects instead of Python's 700.

    Summaries and figures are made of so many objects that looking took a fifth of a report's time. Peak
    memory stays the same. Where collection is off, it stays off.
    """
    first, *others = before = gc.get_threshold()
    gc.set_threshold(max(first, objects) if first else 0, *others)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def free_memory() -> float:
    """Bytes that a process may still take: what the system has available, or what its control group leaves;
    infinite where neither is known."""
    free = math.inf
    with contextlib.suppress(OSError, ValueError, LookupError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    with contextlib.suppress(OSError, ValueError):  # "max" is no number
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        free = min(free, limit - int((group / "memory.current").read_text()) + _reclaimable(group))
    if math.isinf(free):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            if (pages := os.sysconf("SC_PHYS_PAGES")) > 0:
                free = pages * os.sysconf("SC_PAGE_SIZE")
    return free


def check_fits(what: str, size: float) -> None:
    """Refuse what needs more memory than is free, before any is taken.

    >>> check_fits("200 million rows", 1e18)
    Traceback (most recent call last):
    calmix.errors.InputError: 200 million rows: needs 1,000,000.0 TB of memory, ...
    """
    from calmix.errors import InputError  # this module is also run without the package

    if size > (free := free_memory()):
        raise InputError(f"{what}: needs {_readable(size)} of memory, and {_readable(free)} are free")


def _reclaimable(group: Path) -> int:
    """Bytes of cached files, which the system gives back."""
    for line in (group / "memory.stat").read_text().splitlines():
        if line.startswith("inactive_file "):
            return int(line.split()[1])
    return 0


def _readable(size: float) -> str:
    unit = next((unit for unit in ("kB", "MB", "GB") if size < 1000 * _UNITS[unit]), "TB")
    return f"{size / _UNITS[unit]:,.1f} {unit}"


_UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
