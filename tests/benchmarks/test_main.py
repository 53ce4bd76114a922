import math
import sys
import time

import pytest

from benchmarks import NAMES, __main__, isolation
from benchmarks.page import Section
from benchmarks.timing import Row

GOOD, BAD = Row("good", 1.0, "x", at_most=2), Row("bad", 3.0, "x", at_most=2)


@pytest.fixture
def measured(monkeypatch):
    """Names and seconds of the benchmarks that would run; each has the rows given, by default a good one."""
    calls, rows = {}, {}

    def run(name, *, full, seconds, show):
        calls[name] = seconds
        return Section(name, [rows.get(name, GOOD)])

    monkeypatch.setattr(isolation, "run", run)
    monkeypatch.setattr(__main__.machine, "load", lambda: 0.0)
    return calls, rows


def test_all_run_within_six_minutes_but_the_long_one(measured, tmp_path):
    calls, _ = measured
    assert __main__.main(["--page", str(tmp_path / "page.md")]) == 0
    assert list(calls) == list(NAMES)
    assert max(calls.values()) < 360


def test_named_ones_run_as_long_as_they_take(measured, tmp_path):
    calls, _ = measured
    assert __main__.main(["ensemble", "metrics", "--page", str(tmp_path / "page.md")]) == 0
    assert calls == {"metrics": math.inf, "ensemble": math.inf}


def test_an_exceeded_limit_shows_in_the_exit_code_and_on_the_page(measured, tmp_path):
    _, rows = measured
    rows["metrics"] = BAD
    page = tmp_path / "page.md"
    assert __main__.main(["metrics", "augment", "--page", str(page)]) == 1
    assert "- metrics: bad: 3 x (at most 2)" in page.read_text()


def test_an_unknown_name_is_refused(measured, capsys):
    with pytest.raises(SystemExit) as caught:
        __main__.main(["metricks"])
    assert caught.value.code == 2
    assert "metricks" in capsys.readouterr().err


class Pipe:
    """The other end of a benchmark's pipe, with messages that wait."""

    def __init__(self, *messages):
        self.messages = list(messages)

    def poll(self, seconds):
        if not self.messages:
            time.sleep(min(seconds, 0.01))
        return bool(self.messages)

    def recv(self):
        if self.messages[0] is EOFError:
            raise EOFError
        return self.messages.pop(0)


@pytest.mark.parametrize(
    ("messages", "failure"),
    [
        ([("row", GOOD), (isolation.END, "")], ""),
        ([("row", GOOD), (isolation.END, "it failed with ValueError")], "it failed with ValueError"),
        ([("row", GOOD), EOFError], "its process was ended"),
        ([("row", GOOD)], isolation.OUT_OF_TIME),
    ],
)
def test_rows_of_a_benchmark_that_ends_early_are_kept(messages, failure):
    section, shown = Section("metrics"), []
    deadline = time.monotonic() + 0.1
    assert isolation._receive(Pipe(*messages), section, deadline, shown.append) == failure
    assert section.content == shown == [GOOD]


def test_nothing_starts_without_time():
    section = isolation.run("metrics", full=False, seconds=0, show=print)
    assert (section.failure, section.content) == (isolation.OUT_OF_TIME, [])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="processes are not forked there")
def test_a_benchmark_runs_in_a_process_of_its_own_and_is_ended():
    section = isolation.run("imports", full=False, seconds=0.5, show=print)
    assert section.failure == isolation.OUT_OF_TIME
    assert section.seconds < 60
