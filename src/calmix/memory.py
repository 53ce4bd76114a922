"""Memory that a batch has freed is kept for the next one."""

import contextlib
import ctypes
import os
import sys

TRIM_THRESHOLD = -1  # by their numbers in malloc.h
MMAP_THRESHOLD = -3


def keep_freed_memory() -> None:
    """Have glibc keep up to 1 GiB of freed memory, in this process and those it starts.

    Otherwise it returns what a batch frees and asks for it anew with the next; the system then fills every
    page with zeros, which took a quarter to a third of the time of `small_resnet`'s inference and a tenth
    of its training (docs/log.md). Single blocks above 64 MiB are still returned at once. A setting in the
    environment stands, and other C libraries are left as they are.
    """
    for name, option, size in (
        ("MALLOC_TRIM_THRESHOLD_", TRIM_THRESHOLD, 2**30),
        ("MALLOC_MMAP_THRESHOLD_", MMAP_THRESHOLD, 2**26),
    ):
        if sys.platform == "linux" and name not in os.environ:
            os.environ[name] = str(size)
            with contextlib.suppress(AttributeError):  # musl has no mallopt
                ctypes.CDLL(None).mallopt(option, size)
