"""Numbers of a page as files to download: links that hold the file itself."""

import base64
from typing import Any

from calmix.auditing.compare import Comparison
from calmix.auditing.report import AuditReport
from calmix.records import to_json
from calmix.report.exports import csv_text

FORMULA = ("=", "@", "+", "-", "\t", "\r")  # with these a spreadsheet begins a formula


def data_link(text: str, kind: str) -> str:
    """An address that is the file: `data:<kind>;base64,...`.

    >>> data_link("a,b", "text/csv")
    'data:text/csv;charset=utf-8;base64,YSxi'
    """
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode(errors='replace')).decode()}"


def downloads(numbers: dict[str, Any], csv: str, *, name: str) -> list[dict[str, str]]:
    """The links of a page: what is shown, the name of the file, and the address."""
    return [
        {"text": "JSON", "file": f"{name}.json", "href": data_link(to_json(numbers), "application/json")},
        {"text": "CSV", "file": f"{name}.csv", "href": data_link(csv, "text/csv")},
    ]


def audit_csv(report: AuditReport) -> str:
    """One row for each number of an audit; `table` says what it is of."""
    numbers = report.numbers()
    rows: list[dict[str, Any]] = []
    for name, estimate in numbers["metrics"].items():
        rows.append(_row("metric", name, estimate["value"], estimate.get("interval"), estimate))
    for k, member in enumerate(numbers["members"]):
        rows.append(_row("member", str(k), member["gap"], member["gap_interval"], member))
    for each in numbers["classes"]:
        rows.append(_row("predicted class", each["name"], each["gap"], each["gap_interval"], each))
    for each in numbers["class_rates"]:
        interval = each["difference_interval"]
        rows.append(_row("class-wise probability", each["name"], each["difference"], interval, each))
    for each in numbers["groups"]:
        rows.append(_row(each["by"], each["name"], each["gap"], each["gap_interval"], each))
    for each in numbers["remedies"]:
        interval = each["difference_interval"]
        rows.append(_row("remedy", each["method"], each["difference"], interval, each))
    return csv_text(rows)


EXTRA = (
    *("null_mean", "null_95", "p_value", "examples", "accuracy", "confidence", "direction"),
    *("mean_probability", "rate", "nll", "brier", "ece", "recommended"),
)


def _row(table: str, name: str, value: Any, interval: Any, more: dict[str, Any]) -> dict[str, Any]:
    low, high = interval or (None, None)
    row = {"table": harmless(table), "name": harmless(name), "value": value, "low": low, "high": high}
    return row | {key: more.get(key) for key in EXTRA}


def comparison_csv(comparison: Comparison) -> str:
    """One row for each difference."""
    numbers = comparison.numbers()
    tables = {"metric": [{"name": name, **each} for name, each in numbers["metrics"].items()]}
    tables |= {"class": numbers["classes"], **numbers["groups"]}
    rows = []
    for table, entries in tables.items():
        for each in entries:
            low, high = each["interval"]
            row = {"table": harmless(table), "name": harmless(each["name"]), "examples": each.get("examples")}
            row |= {key: each[key] for key in ("a", "b", "difference")}
            rows.append(row | {"low": low, "high": high, "better": each["better"]})
    return csv_text(rows)


def harmless(text: str) -> str:
    """A name that no spreadsheet takes for a formula; numbers stay as they are.

    >>> harmless("=1+1"), harmless("-1"), harmless("cat")
    ("'=1+1", '-1', 'cat')
    """
    if not text.startswith(FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
