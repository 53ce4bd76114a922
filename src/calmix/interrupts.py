"""SIGTERM and Ctrl-C of a command: when it ends, and with which exit code.

SIGTERM is what schedulers send: training writes a last checkpoint at the next step, everything else stops
where it is. Both end the process at once while modules are imported, when there is nothing to keep.
"""

import contextlib
import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

GRACE_SECONDS = 5.0  # for the step that is being computed when SIGTERM arrives
AGAIN_SECONDS = 0.01  # until an exception that Python dropped is raised once more
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
_terminated = threading.Event()
_sections = 0  # of `at_checkpoints`
_holding = 0  # of `held`
_before_imports: dict[signal.Signals, Any] = {}


class Terminated(BaseException):
    """SIGTERM has arrived; the command line exits with 143."""


@contextlib.contextmanager
def raising() -> Iterator[None]:
    """SIGTERM raises `Terminated` in the block: at once, or within `at_checkpoints` where `check` is called.

    Only in the main thread, and where nobody else handles the signal. A handler may run in any line of
    Python: where that is a finaliser or a callback, Python drops what it raises, and it is raised once more;
    where it is called from C, another error may come out, which is `Terminated` all the same.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _on_sigterm)
    hook, sys.unraisablehook = sys.unraisablehook, _on_unraisable
    try:
        yield
    except Exception:
        check()
        raise
    finally:
        _set_alarm(0)
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _terminated.clear()


@contextlib.contextmanager
def at_checkpoints() -> Iterator[None]:
    """Wait with `Terminated` for a call of `check`, at most `GRACE_SECONDS`, while the block runs."""
    global _sections
    _sections += 1
    try:
        yield
    finally:
        _sections -= 1
        _set_alarm(0)
    check()


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Ctrl-C and SIGTERM arrive after the block, in which a process is started: what a handler raises during
    a fork is lost. The new process lets them through again (`init_worker`).

    The mask is for the new process; a thread of this one may still receive a signal, so that handlers wait
    too.
    """
    global _holding
    main = threading.current_thread() is threading.main_thread()
    interrupted: list[bool] = []
    default = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if default:
        signal.signal(signal.SIGINT, lambda *_: interrupted.append(True))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, CODES) if hasattr(signal, "pthread_sigmask") else None
    _holding += 1
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _holding -= 1
        if default:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if interrupted:
        raise KeyboardInterrupt
    if main and not _sections:
        check()


def terminated() -> bool:
    """Whether SIGTERM has arrived: time for a checkpoint."""
    return _terminated.is_set()


def check() -> None:
    """Raise `Terminated` if SIGTERM has arrived."""
    if _terminated.is_set():
        raise Terminated


def is_command() -> bool:
    """Whether this process is `calmix` or `python -m calmix`."""
    words = sys.orig_argv
    script = os.path.basename(sys.argv[0]) if sys.argv else ""
    return script in ("calmix", "calmix.exe") or ("-m", "calmix") in itertools.pairwise(words)


def begin_imports() -> None:
    """From here on Ctrl-C and SIGTERM end the process at once: modules that are being imported may swallow
    exceptions. Only in a process of the command line; `end_imports` calls it off."""
    if is_command() and threading.current_thread() is threading.main_thread():
        for number in CODES:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                _before_imports[number] = signal.signal(number, _exit)


def end_imports() -> None:
    while _before_imports:
        signal.signal(*_before_imports.popitem())


def _exit(number: int, _: FrameType | None) -> None:
    os._exit(CODES[signal.Signals(number)])


def _on_sigterm(*_: object) -> None:
    first = not _terminated.is_set()
    _terminated.set()
    if _holding:
        return
    if not _sections:
        raise Terminated
    if first:
        _set_alarm(GRACE_SECONDS)


def _on_unraisable(dropped: "sys.UnraisableHookArgs") -> None:
    if not issubclass(dropped.exc_type, Terminated | KeyboardInterrupt):
        sys.__unraisablehook__(dropped)
    elif issubclass(dropped.exc_type, KeyboardInterrupt):
        _set_alarm(AGAIN_SECONDS, _on_late_interrupt)
    else:
        _set_alarm(AGAIN_SECONDS)


def _on_alarm(*_: object) -> None:
    raise Terminated


def _on_late_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _set_alarm(seconds: float, handler: Callable[..., None] = _on_alarm) -> None:
    """Call a handler that raises, after the grace period; 0 calls it off. Windows has no such alarm."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return
    if seconds:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    elif signal.getsignal(signal.SIGALRM) in (_on_alarm, _on_late_interrupt):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


begin_imports()  # the package imports this module first
