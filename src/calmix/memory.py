"""Settings of the memory allocator: freed memory is kept for the next batch."""

import contextlib
import ctypes
import os
import sys

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
