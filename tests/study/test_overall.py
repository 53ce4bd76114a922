import pytest

from calmix.progress import Finished, Message, Progress
from calmix.study.overall import OverallProgress


def test_the_bar_moves_with_the_tasks_and_knows_the_time_left():
    events, now = [], [0.0]
    overall = OverallProgress(events.append, {"a": 1.0, "b": 3.0}, 2, in_hours=True, clock=lambda: now[0])
    overall.report()
    assert events[-1] == Progress("all runs", 0.0, 100.0, "0 of 2 tasks, about 2.0 h left")
    overall(Progress("a", 0, 10))
    now[0] = 3600.0
    overall(Progress("a", 5, 10, "epoch 5"))
    assert events[-2] == Progress("a", 5, 10, "epoch 5")
    assert events[-1] == Progress("all runs", 12.5, 100.0, "0 of 2 tasks, about 7.0 h left")
    overall(Progress("a", 1, 10))  # evaluation counts anew, and the bar never goes back
    assert events[-1].done == 12.5
    overall(Finished("a"))
    overall(Finished("b"))
    assert events[-1] == Progress("all runs", 100.0, 100.0, "2 of 2 tasks, about 0 min left")


def test_what_was_done_before_a_task_was_resumed_says_nothing_of_its_speed():
    events, now = [], [0.0]
    overall = OverallProgress(events.append, {"a": 1.0}, in_hours=True, clock=lambda: now[0])
    overall(Progress("a", 16, 20))
    assert events[-1] == Progress("all runs", 0.0, 100.0, "0 of 1 tasks, about 1.0 h left")
    now[0] = 600.0
    overall(Progress("a", 17, 20))
    assert events[-1].done == pytest.approx(25.0)
    assert events[-1].text == "0 of 1 tasks, about 30 min left"


def test_without_a_forecast_the_time_is_known_once_it_is_measured():
    events = []
    overall = OverallProgress(events.append, {"a": 1.0}, clock=lambda: 0.0)
    overall.report()
    assert events[-1].text == "0 of 1 tasks"
    overall(Message("hello"))
    assert events[-1] == Message("hello")
