import pytest

from calmix.auditing.text import percent, show
from calmix.metrics import Interval


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("ece", Interval(0.0123, 0.01, 0.02), ("1.23 %", "1.00 to 2.00 %")),
        ("accuracy", Interval(1.0, 0.995, 1.0), ("100.00 %", "99.50 to 100.00 %")),
        ("gap", Interval(-0.05, -0.1, 0.02), ("-5.00 %", "-10.00 to +2.00 %")),
        ("nll", Interval(0.12345678, 0.1, 0.2), ("0.1235", "0.1 to 0.2")),
        ("brier", Interval(0.5, 0.4, 0.6), ("0.5", "0.4 to 0.6")),
        ("skce", Interval(1e-5, -1e-5, 2e-5), ("1e-05", "-1e-05 to 2e-05")),
    ],
)
def test_shares_are_shown_in_per_cent_and_other_numbers_plainly(name, value, text):
    assert show(name, value) == text


def test_percent():
    assert percent(0.12345) == "12.35 %"
