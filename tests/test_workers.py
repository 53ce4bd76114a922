import multiprocessing
import subprocess
import sys

import pytest

from calmix import workers

SCRIPT = f"""
import multiprocessing, os, runpy, signal, time

def work():
    runpy.run_path({workers.__file__!r})["init_worker"]()  # importing the package takes seconds
    os.kill(os.getpid(), signal.SIGINT)
    print("still running", flush=True)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)

multiprocessing.get_context("fork").Process(target=work).start()
time.sleep(60)
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_worker_ignores_sigint_and_ends_with_its_parent():
    # The output ends when the last process that can write it has ended.
    process = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, timeout=20, text=True)
    assert process.returncode == -9
    assert (process.stdout, process.stderr) == ("still running\n", "")


def test_processes_share_the_cpus(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(workers, "_sharing", 1)
    assert workers.own_cpus() == 8
    workers.share_cpus(3)
    assert workers.own_cpus() == 2
    workers.share_cpus(100)
    assert workers.own_cpus() == 1
