"""Numbers of an audit as text."""

from calmix.metrics import Interval

PLAIN = ("nll", "brier", "skce")  # the others are shares, shown in per cent


def show(name: str, estimate: Interval) -> tuple[str, str]:
    """A metric and its interval.

    >>> show("gap", Interval(0.1, 0.05, 0.15))
    ('+10.00 %', '+5.00 to +15.00 %')
    """
    if name in PLAIN:
        return f"{estimate.value:.4g}", f"{estimate.low:.4g} to {estimate.high:.4g}"
    sign = "+" if name == "gap" else ""
    low, high = (f"{100 * end:{sign}.2f}" for end in (estimate.low, estimate.high))
    return f"{100 * estimate.value:{sign}.2f} %", f"{low} to {high} %"


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"
