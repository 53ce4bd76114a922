"""Setup of worker processes."""

import multiprocessing
import os
import signal
import threading


def init_worker() -> None:
    """Ignore Ctrl-C, which the parent process handles, and end with the parent, even if it is killed.

    Call it first in a process started by `multiprocessing`, or as the initializer of an executor.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
