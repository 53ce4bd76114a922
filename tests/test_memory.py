import gc
import mmap
import os
import platform
import subprocess
import sys

import pytest

from calmix import InputError, memory

PAGES = 2**24 // mmap.PAGESIZE
KEEP = f"runpy.run_path({memory.__file__!r})['keep_freed_memory']()"  # importing the package takes seconds
SCRIPT = """
import ctypes, resource, runpy
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: pages of one size
{setup}
bytearray(2**24)  # the first free makes glibc raise its dynamic threshold
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    [bytearray(2**24) for _ in range(3)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(setup, **environment):
    """New pages from the system for ten times three buffers of 16 MiB."""
    unset = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(setup=setup)],
        env=unset | environment,
        capture_output=True,
        check=True,
    )
    return int(process.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_buffers_are_reused():
    assert page_faults("") > 15 * PAGES
    assert page_faults(KEEP) < 3 * PAGES
    assert page_faults(KEEP, MALLOC_TRIM_THRESHOLD_="1", MALLOC_MMAP_THRESHOLD_="1") > 15 * PAGES


def test_environment_is_set_for_child_processes_unless_it_was(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())  # a C library without mallopt
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "123")
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    memory.keep_freed_memory()
    assert os.environ["MALLOC_TRIM_THRESHOLD_"] == "123"
    assert os.environ["MALLOC_MMAP_THRESHOLD_"] == str(2**26)


def test_what_does_not_fit_is_refused(monkeypatch):
    assert memory.free_memory() > 0
    memory.check_fits("a number", 8)
    monkeypatch.setattr(memory, "free_memory", lambda: 2e9)
    with pytest.raises(InputError, match=r"weights: needs 3\.0 GB of memory, and 2\.0 GB are free"):
        memory.check_fits("weights", 3e9)


def test_garbage_is_collected_seldom_and_then_as_before():
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 5)
        with memory.seldom_garbage_collection(10_000):
            assert gc.get_threshold() == (10_000, 10, 5)
        assert gc.get_threshold() == (700, 10, 5)
        gc.set_threshold(0, 10, 5)  # off
        with memory.seldom_garbage_collection():
            assert gc.get_threshold()[0] == 0
        gc.set_threshold(50_000, 10, 5)  # the user's own
        with memory.seldom_garbage_collection():
            assert gc.get_threshold()[0] == 50_000
    finally:
        gc.set_threshold(*before)
