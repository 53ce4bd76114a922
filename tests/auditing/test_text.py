import pytest

from calmix.auditing.measures import Estimate
from calmix.auditing.text import percent, show, show_beside, show_interval, show_p
from calmix.metrics import Interval


@pytest.mark.parametrize(
    ("name", "interval", "value", "ends"),
    [
        ("ece", Interval(0.0123, 0.01, 0.02), "1.23 %", "1.00 to 2.00 %"),
        ("accuracy", Interval(1.0, 0.995, 1.0), "100.00 %", "99.50 to 100.00 %"),
        ("gap", Interval(-0.05, -0.1, 0.02), "-5.00 %", "-10.00 to +2.00 %"),
        ("nll", Interval(0.12345678, 0.1, 0.2), "0.1235", "0.1 to 0.2"),
        ("skce", Interval(1e-5, -1e-5, 2e-5), "1e-05", "-1e-05 to 2e-05"),
    ],
)
def test_shares_are_shown_in_per_cent_and_other_numbers_plainly(name, interval, value, ends):
    assert show(name, interval.value) == value
    assert show_interval(name, interval) == ends
    assert show_beside(name, Estimate(interval.value, interval)) == ends


def test_nulls_are_shown_with_their_p_value():
    assert (
        show_beside("ece", Estimate(0.1, None, 0.02, 0.03, 0.25))
        == "by chance 2.00, up to 3.00 % (p = 0.250)"
    )
    assert show_beside("aurc", Estimate(0.1)) == ""
    assert show_p(0.0001) == "< 0.001"
    kernel = Estimate(1e-3, None, -1.2345e-5, 1.3456e-4, 0.004)
    assert show_beside("skce", kernel) == "by chance -1.2e-05, up to 0.00013 (p = 0.004)"


def test_percent():
    assert percent(0.12345) == "12.35 %"
