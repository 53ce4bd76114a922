import mmap
import os
import platform
import subprocess
import sys

import pytest

from calmix import memory

PAGES = 2**24 // mmap.PAGESIZE
KEEP = (
    f"runpy.run_path({memory.__file__!r})['keep_freed_memory']()"  # without the package, which takes seconds
)
SCRIPT = """
import ctypes, resource, runpy
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: pages of one size
{first}
bytearray(2**24)  # the first to be freed teaches glibc a threshold of its own
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    [bytearray(2**24) for _ in range(3)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def new_pages(first, **environment):
    """Pages that buffers of 16 MiB, ten times three, get anew from the system."""
    unset = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(first=first)],
        env=unset | environment,
        capture_output=True,
        check=True,
    )
    return int(told.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_a_freed_buffer_is_used_again():
    assert new_pages("") > 15 * PAGES
    assert new_pages(KEEP) < 3 * PAGES
    assert new_pages(KEEP, MALLOC_TRIM_THRESHOLD_="1", MALLOC_MMAP_THRESHOLD_="1") > 15 * PAGES


def test_processes_that_it_starts_do_the_same_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())  # of a C library without mallopt
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "123")
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    memory.keep_freed_memory()
    assert os.environ["MALLOC_TRIM_THRESHOLD_"] == "123"
    assert os.environ["MALLOC_MMAP_THRESHOLD_"] == str(2**26)
