"""An audit as text: a page for a terminal, and its numbers one by one."""

import textwrap
from collections.abc import Iterable, Sequence

from calmix.auditing.groups import MIN_EXAMPLES, PREDICTED, TRUE, GroupGap
from calmix.auditing.measures import MEASURES, Estimate
from calmix.auditing.report import AuditReport
from calmix.metrics import Interval

WIDTH = 80
ROWS = 10  # of a table of classes or groups, worst first
NAME_WIDTH = 28


def show(name: str, value: float) -> str:
    """A metric's value with its unit.

    >>> show("gap", 0.1), show("ece", 0.0123), show("nll", 0.123456)
    ('+10.00 %', '1.23 %', '0.1235')
    """
    if MEASURES[name].unit == "number":
        return f"{value:.4g}"
    sign = "+" if MEASURES[name].unit == "points" else ""
    return f"{100 * value:{sign}.2f} %"


def show_interval(name: str, interval: Interval) -> str:
    """The ends of an interval in the metric's unit.

    >>> show_interval("gap", Interval(0.1, 0.05, 0.15))
    '+5.00 to +15.00 %'
    """
    low, high = (show(name, end) for end in (interval.low, interval.high))
    return f"{low.removesuffix(' %')} to {high}"


def show_beside(name: str, estimate: Estimate) -> str:
    """What stands beside a value: its interval, or what a calibrated model would show."""
    if estimate.interval is not None:
        return show_interval(name, estimate.interval)
    if estimate.p_value is None or estimate.null_mean is None or estimate.null_95 is None:
        return ""
    mean, most = f"{estimate.null_mean:.2g}", f"{estimate.null_95:.2g}"
    if MEASURES[name].unit != "number":
        mean, most = show(name, estimate.null_mean).removesuffix(" %"), show(name, estimate.null_95)
    return f"by chance {mean}, up to {most} (p {show_p(estimate.p_value)})"


def show_p(p_value: float) -> str:
    return f"= {p_value:.3f}" if p_value >= 0.001 else "< 0.001"


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def report_text(report: AuditReport) -> str:
    """The whole report in 80 columns: the verdict first, then the numbers behind it, then what would help."""
    several = len(report.members) > 1
    lines = [
        f"Verdict: {report.verdict}",
        *_wrap(report.explanation),
        "",
        *_metrics(report),
        *(_members(report) if several else ()),
        *_classes(report),
        *_groups(report),
        "",
        *_remedies(report),
        "",
        *(line for text in report.advice for line in _wrap(text, "- ")),
        *(line for text in report.notes for line in _wrap(f"Note: {text}")),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _wrap(text: str, bullet: str = "") -> list[str]:
    indent = " " * len(bullet)
    return textwrap.wrap(text, WIDTH, initial_indent=bullet, subsequent_indent=indent)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> list[str]:
    """Columns as wide as their widest cell, the first `left` of them to the left."""
    cells = [list(heads), *map(list, rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(heads))]
    return [
        "  ".join(
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def _metrics(report: AuditReport) -> list[str]:
    level = f"{100 * report.level:g} % interval, or a calibrated model"
    shown = [name for name in report.metrics if name in MEASURES]
    if len(report.members) == 1:
        shown = [name for name in shown if name not in ("data_uncertainty", "knowledge_uncertainty")]
    rows = [
        (
            MEASURES[name].title,
            show(name, report.metrics[name].value),
            show_beside(name, report.metrics[name]),
        )
        for name in shown
    ]
    widest = max(len(title) for title, _, _ in rows)
    return [
        f"{'metric':{widest}}  {'value':>10}  {level}",
        *(f"{title:{widest}}  {value:>10}  {beside}" for title, value, beside in rows),
    ]


def _members(report: AuditReport) -> list[str]:
    rows = [
        (f"{k}", percent(m.accuracy), percent(m.ece), show("gap", m.gap.value), show_interval("gap", m.gap))
        for k, m in enumerate(report.members[:ROWS])
    ]
    more = len(report.members) - ROWS
    table = _table(("member", "accuracy", "ECE", "gap", f"{100 * report.level:g} % interval"), rows)
    return ["", *table, *([f"... and {more} more"] if more > 0 else ())]


def _gap_table(heads: str, rows: Sequence[GroupGap]) -> list[str]:
    cells = [
        (
            _short(row.name),
            f"{row.examples:,}",
            show("gap", row.gap.value),
            show_interval("gap", row.gap) if row.direction != "too few" else "",
            row.direction,
        )
        for row in rows[:ROWS]
    ]
    more = len(rows) - ROWS
    table = _table((heads, "examples", "gap", "interval*", ""), cells)
    return [*table, *([f"... and {more:,} more"] if more > 0 else ())]


def _classes(report: AuditReport) -> list[str]:
    rates = [
        (
            _short(row.name),
            percent(row.mean_probability),
            percent(row.rate),
            show_interval("gap", row.difference),
            row.direction,
        )
        for row in report.class_rates[:ROWS]
    ]
    more = len(report.class_rates) - ROWS
    together = (
        f"* Intervals of all rows of both tables hold at once with {100 * report.level:g} %. Fewer than "
        f"{MIN_EXAMPLES} examples are too few."
    )
    return [
        "",
        *_gap_table("predicted class", report.classes),
        "",
        *_table(("class", "mean P(k)", "rate", "difference*", ""), rates),
        *([f"... and {more:,} more"] if more > 0 else ()),
        *_wrap(together),
    ]


def _groups(report: AuditReport) -> list[str]:
    lines: list[str] = []
    for by in report.by:
        if by == PREDICTED:
            continue
        rows = [row for row in report.groups if row.by == by]
        lines += ["", *_gap_table(by.replace(TRUE, "true class"), rows)]
        if by == TRUE:
            lines += _wrap(
                "By true class: the rule by which CAMixup mixes, not calibration. A rare class looks "
                "over-confident here even where all probabilities are right."
            )
    if lines:
        count = len(report.groups)
        lines += _wrap(
            f"* Intervals of all {count:,} groups hold at once with {100 * report.level:g} % (Bonferroni)."
        )
    return lines


def _remedies(report: AuditReport) -> list[str]:
    rows = [
        (
            f"{'>' if remedy.recommended else ' '} {remedy.method}",
            f"{remedy.nll:.4f}",
            percent(remedy.ece),
            f"{remedy.difference.low:+.4f} to {remedy.difference.high:+.4f}" if place else "",
            remedy.difference_of.upper()
            if place and remedy.difference_of == "nll"
            else "Brier"
            if place
            else "",
        )
        for place, remedy in enumerate(report.remedies)
    ]
    heads = ("  remedy (> recommended)", "NLL", "ECE", "difference to nothing", "of")
    return _table(heads, rows)


def _short(name: str) -> str:
    name = "".join(character if character.isprintable() else "?" for character in name)
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "…"
