import os
import signal
import subprocess
import sys
import time

import pytest

from calmix import interrupts
from calmix.interrupts import Terminated, at_checkpoints, check, held, raising, terminated

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0)  # Python's handler has run


def test_it_ends_the_work_at_once():
    with pytest.raises(Terminated), raising():
        terminate()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert not terminated()


def test_within_training_it_waits_for_a_checkpoint():
    saved = []

    def train():
        terminate()
        saved.append(terminated())
        check()
        saved.append("went on")

    with pytest.raises(Terminated), raising(), at_checkpoints():
        train()
    assert saved == [True]
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_training_that_ends_meanwhile_is_no_reason_to_go_on():
    with pytest.raises(Terminated), raising(), at_checkpoints():
        terminate()


def test_a_step_that_takes_too_long_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(interrupts, "GRACE_SECONDS", 0.05)
    began = time.monotonic()

    def step():
        terminate()
        time.sleep(20)

    with pytest.raises(Terminated), raising(), at_checkpoints():
        step()
    assert time.monotonic() - began < 15


class Finaliser:
    """What a handler raises in it is dropped by Python."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        os.kill(os.getpid(), self.number)
        time.sleep(0)


@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_signal_that_arrives_in_a_finaliser_is_not_lost(number, expected, capsys):
    hook = sys.unraisablehook

    def work():
        Finaliser(number)
        for _ in range(1000):
            time.sleep(0.01)

    with pytest.raises(expected), raising():
        work()
    assert sys.unraisablehook is hook
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    assert not capsys.readouterr().err


def test_other_errors_of_finalisers_are_shown_as_ever(capsys):
    class Broken:
        def __del__(self):
            raise ValueError("defect")

    with raising():
        Broken()
    assert "defect" in capsys.readouterr().err


def test_an_error_that_the_signal_was_turned_into_is_the_signal():
    def from_c():
        try:
            terminate()
        except Terminated:
            raise ValueError("could not determine the shape") from None

    with pytest.raises(Terminated), raising():
        from_c()
    with pytest.raises(ValueError, match="another"), raising():
        raise ValueError("another")


def test_handlers_of_others_are_left_alone():
    calls = []
    before = signal.signal(signal.SIGTERM, lambda *_: calls.append(True))
    try:
        with raising():
            terminate()
        assert calls == [True]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_without_a_signal_nothing_happens():
    with raising(), at_checkpoints():
        check()
    assert not terminated()


# The package itself is not imported: torch takes seconds.
SCRIPT = """
import importlib.util, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
sys.argv = [{name!r}]
spec = importlib.util.spec_from_file_location("interrupts", {path!r})
spec.loader.exec_module(importlib.util.module_from_spec(spec))
os.kill(os.getpid(), signal.{signal})
print("went on")
"""


@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_command_ends_silently_while_it_imports(sent, code):
    script = SCRIPT.format(name="/usr/bin/calmix", signal=sent, path=interrupts.__file__)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_a_program_that_imports_the_package_keeps_its_handlers():
    script = SCRIPT.format(name="mine.py", signal="SIGINT", path=interrupts.__file__)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "KeyboardInterrupt" in done.stderr


def test_signals_wait_for_the_start_of_a_process():
    reached = []

    def start():
        with held():
            terminate()
            reached.append("in")
        reached.append("after")

    with pytest.raises(Terminated), raising():
        start()
    assert reached == ["in"]
