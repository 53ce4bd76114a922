"""A comparison as a page for a terminal."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calmix.auditing.compare import Comparison, RowDifference

PLAIN = ("nll", "brier")  # the others are shares, shown in per cent
ROWS = 8  # of a table of classes or groups


def page(comparison: "Comparison") -> str:
    """Which side is better in what, then the numbers; at most 100 columns."""
    a, b = (_short(name) for name in comparison.names)
    first, second = comparison.examples
    how = (
        f"{first:,} examples, paired" if comparison.paired else f"{first:,} and {second:,} examples, unpaired"
    )
    lines = [f"a = {comparison.names[0]}", f"b = {comparison.names[1]}", how, ""]
    lines += [_sentence(comparison, side, name) for side, name in (("a", a), ("b", b))]
    interval = f"{100 * comparison.level:g} % interval"
    lines += ["", f"{'':<10}{'a':>10}{'b':>10}{'b - a':>11}  {interval:<24}better"]
    for name, row in comparison.metrics.items():
        show = _plain if name in PLAIN else _percent
        ends = _ends(row.difference.low, row.difference.high, name in PLAIN)
        mark = " *" if row.approximate else ""
        cells = f"{show(row.a):>10}{show(row.b):>10}{show(row.difference.value, sign=True):>11}"
        lines.append(f"{name:<10}{cells}  {ends:<24}{row.better}{mark}")
    lines.append("* approximate: resampling changes the error of both, not quite alike")
    for title, rows in (("class", comparison.classes), *comparison.groups.items()):
        lines += ["", *_rows(title, rows)]
    lines += [f"Note: {note}" for note in comparison.notes]
    return "\n".join(line.rstrip() for line in lines)


def _sentence(comparison: "Comparison", side: str, name: str) -> str:
    better = [metric for metric, row in comparison.metrics.items() if row.better == side]
    rows = [row.name for row in comparison.classes if row.better == side]
    text = f"{side} is better in {', '.join(better)}" if better else f"{side} is better in no metric for sure"
    if rows:
        more = f" and {len(rows) - 6} more" if len(rows) > 6 else ""
        text += f"; for the classes {', '.join(rows[:6])}{more}"
    for group, differences in comparison.groups.items():
        named = [row.name for row in differences if row.better == side]
        text += f"; for {group} {', '.join(named[:6])}" if named else ""
    return text + "."


def _rows(title: str, rows: "tuple[RowDifference, ...]") -> list[str]:
    head = f"{_short(title, 20):<21}{'examples':>9}{'brier a':>10}{'brier b':>10}{'b - a':>11}"
    lines = [f"{head}  {'interval':<24}better"]
    for row in rows[:ROWS]:
        low, high = row.difference.low, row.difference.high
        ends = "too few examples" if math.isnan(low) else _ends(low, high, True)
        cells = f"{row.examples:>9,}{_plain(row.a):>10}{_plain(row.b):>10}"
        cells += f"{_plain(row.difference.value, sign=True):>11}"
        lines.append(f"{_short(row.name, 20):<21}{cells}  {ends:<24}{row.better}")
    if len(rows) > ROWS:
        lines.append(f"... and {len(rows) - ROWS} more; the JSON has all")
    return lines


def _ends(low: float, high: float, plain: bool) -> str:
    if math.isnan(low):
        return "none"
    show = _plain if plain else _percent
    return f"{show(low, sign=True)} to {show(high, sign=True)}"


def _plain(value: float, *, sign: bool = False) -> str:
    return f"{value:{'+' if sign else ''}.4f}"


def _percent(value: float, *, sign: bool = False) -> str:
    return f"{100 * value:{'+' if sign else ''}.2f} %"


def _short(text: str, width: int = 40) -> str:
    return text if len(text) <= width else "..." + text[3 - width :]
