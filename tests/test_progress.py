import io
from types import SimpleNamespace

import pytest

from calmix.progress import Display, Finished, Message, Numbers, Progress, ignore, within


def lines(capsys):
    captured = capsys.readouterr()
    assert captured.out == ""  # which is left to results
    return captured.err.splitlines()


def test_a_part_reports_under_the_name_of_its_task():
    events = []
    report = within("run 1", events.append)
    report(Progress("predicting", 1, 2))
    report(Progress("predicting", 2, 2, "fog-3"))
    report(Message("a warning"))
    report(Numbers("member 0", 3, {"loss": 0.5}))
    report(Finished("predicting", "75 sets"))
    report(Finished("predicting"))
    assert events == [
        Progress("run 1", 1, 2, "predicting"),
        Progress("run 1", 2, 2, "fog-3"),
        Message("a warning", "run 1"),
        Numbers("run 1", 3, {"loss": 0.5}),
        Message("predicting: 75 sets", "run 1"),
    ]


def test_ignore_takes_every_event():
    for event in (Progress("a", 1, 2), Finished("a"), Message("b"), Numbers("a", 1, {})):
        assert ignore(event) is None


def test_in_a_log_there_is_a_line_every_few_seconds(capsys, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("calmix.progress.time", SimpleNamespace(monotonic=lambda: clock.now))
    with Display(seconds_between_lines=10) as display:
        for second in range(0, 26):
            clock.now = float(second)
            display(Progress("training", second, 50, f"epoch {second}"))
        display(Progress("short", 1, 2))
        display(Message("a warning"))
        display(Message("a decision", "training"))
        display(Numbers("training", 1, {"loss": 0.5}))
        display(Finished("short"))
        display(Finished("training", "accuracy 90 %"))
    assert lines(capsys) == [
        "training: 20 %  epoch 10",
        "training: 40 %  epoch 20",
        "a warning",
        "training: a decision",
        "short: done",
        "training: accuracy 90 %",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Terminal()
    monkeypatch.setattr("calmix.progress.sys", SimpleNamespace(stderr=screen))  # pytest sets its own in sys
    return screen


def test_on_a_terminal_there_is_a_bar_for_each_task(terminal):
    with Display() as display:
        display(Progress("training", 1, 4, "epoch 1"))
        display(Progress("[bold]predicting", 1, 2, "[red]fog"))  # which is no markup
        display(Progress("training", 2, 4))  # and keeps its text
        display.bars.refresh()
        display(Message("a [warning]"))
        assert len(display.bars.tasks) == 2
        (training, _) = display.bars.tasks
        assert (training.completed, training.total, training.fields["text"]) == (2, 4, "epoch 1")
        display(Finished("training", "90 %"))
        assert len(display.bars.tasks) == 1
    shown = terminal.getvalue()
    for text in ("epoch 1", "[bold]predicting", "[red]fog", "a [warning]", "training: 90 %"):
        assert text in shown


def test_the_end_of_a_task_without_a_bar(terminal):
    with Display() as display:
        display(Finished("evaluating", "75 corrupted test sets"))
    assert "evaluating: 75 corrupted test sets" in terminal.getvalue()
