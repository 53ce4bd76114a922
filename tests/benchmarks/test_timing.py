import itertools

import pytest

from benchmarks import timing
from benchmarks.timing import Row, cpu_seconds, number


@pytest.mark.parametrize(
    ("row", "limit", "result"),
    [
        (Row("a", 2.0, "x"), "", ""),
        (Row("a", 2.0, "x", at_most=2), "at most 2", "ok"),
        (Row("a", 2.1, "x", at_most=2), "at most 2", "exceeded"),
        (Row("a", 12_000.0, "images/s", at_least=10_000), "at least 10,000", "ok"),
        (Row("a", 9_999.0, "images/s", at_least=10_000), "at least 10,000", "exceeded"),
    ],
)
def test_row_says_whether_its_limit_is_kept(row, limit, result):
    assert (row.limit, row.result) == (limit, result)


def test_numbers_have_three_digits_or_all_before_the_point():
    assert [number(v) for v in (12345.6, 1.2345, 0.00012345)] == ["12,346", "1.23", "0.000123"]


def test_cpu_seconds_takes_the_best_repeat(monkeypatch):
    # start and end of each call: 5 and 7, then 3 and 9 seconds
    clock = iter([0, 5, 0, 7, 0, 3, 0, 9])
    monkeypatch.setattr(timing.time, "process_time", lambda: next(clock))
    calls = []
    assert cpu_seconds(lambda: calls.append("a"), lambda: calls.append("b"), repeats=2) == [3, 7]
    assert "".join(calls) == "ababab"  # one call of each is not measured


def test_no_repeat_starts_after_its_time(monkeypatch):
    clock = itertools.count(step=10)
    monkeypatch.setattr(timing.time, "monotonic", lambda: next(clock))
    calls = []
    cpu_seconds(lambda: calls.append(1), repeats=100, seconds=25)
    assert len(calls) == 1 + 3
