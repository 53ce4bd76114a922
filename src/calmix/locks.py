"""Locks: one process writes a folder at a time, and clears away what killed ones left there."""

import contextlib
import errno
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from calmix.errors import InputError

LEFTOVERS = (".*.part", ".unpack-*", "checkpoint.previous.tmp")
_held: dict[int, FileLock] = {}  # the locks of this process, by descriptor


@contextlib.contextmanager
def lock(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold `folder` while the block runs; where another process holds it, wait or say so at once.

    The operating system releases the lock of a process that died, and processes that this one forks do not
    inherit it. A folder that cannot be written needs no lock: nobody writes it. Temporary files of killed
    processes are removed from the folder and its `predictions`.
    """
    path = folder / ".lock"
    file_lock = FileLock(path, timeout=-1 if wait else 0)
    try:
        file_lock.acquire()
    except Timeout:
        owner = ""
        with contextlib.suppress(OSError):
            owner = path.read_text(errors="replace").strip()[:200]
        who = f"another process ({owner})" if owner else "another process"
        raise InputError(f"{who} is at work on {folder}; wait for it or stop it first") from None
    except OSError as error:
        if not is_read_only(error):
            raise
        yield
        return
    descriptor = _descriptor(file_lock)
    _held[descriptor] = file_lock
    try:
        with contextlib.suppress(OSError):  # Windows locks the file against its own process too
            path.write_text(f"{os.getpid()} on {socket.gethostname()}\n")
        remove_leftovers(folder)
        remove_leftovers(folder / "predictions")
        yield
    finally:
        _held.pop(descriptor, None)
        file_lock.release()


def is_read_only(error: OSError) -> bool:
    """Whether an error says that nothing can be written there."""
    return error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of processes that were killed; only where no other process writes."""
    for pattern in LEFTOVERS:
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def clear_leftovers(folder: Path) -> None:
    """Remove temporary files of processes that were killed, unless a process holds the folder: a member that
    was started again writes its history once more although it had finished."""
    with contextlib.suppress(InputError, OSError), lock(folder):
        pass


def _descriptor(file_lock: FileLock) -> int:
    number: int | None = getattr(getattr(file_lock, "_context", None), "lock_file_fd", None)
    return -1 if number is None else number


def _close_inherited() -> None:
    """In a forked process: give up the parent's locks, which would outlive the parent here.

    Later versions of filelock do it themselves; a descriptor of another file is left alone.
    """
    for descriptor, file_lock in _held.items():
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), os.stat(file_lock.lock_file)):
                os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
