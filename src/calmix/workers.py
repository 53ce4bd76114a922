"""Setup of worker processes."""

import multiprocessing
import os
import signal
import threading

POLL_SECONDS = 1.0
_sharing = 1  # processes that train at the same time, this one included


def share_cpus(processes: int) -> None:
    """Say that so many processes like this one work at the same time."""
    global _sharing
    _sharing = processes


def own_cpus() -> int:
    """CPUs for the workers of this process: all that it may use, divided among those that share them."""
    affinity = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
    return max(1, len(affinity(0)) // _sharing)


def init_worker() -> None:
    """Ignore Ctrl-C, which the parent process handles, and end with the parent, even if it is killed.

    Call it first in a process started by `multiprocessing`, or as the initializer of an executor.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a forked worker has the handlers of its parent
    if hasattr(signal, "pthread_sigmask"):  # held back while the process was started
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()


def _end_with_parent(pid: int) -> None:
    """Wait for the end of the parent. Its pipe alone is not enough: processes that it forked later keep the
    other end open."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    while os.getppid() == pid:
        parent.join(POLL_SECONDS)
        if not parent.is_alive():
            break
    os._exit(1)
