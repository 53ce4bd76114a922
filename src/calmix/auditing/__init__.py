"""Audit of predictions: is an ensemble mis-calibrated, how certain is that, and what would help."""

from calmix.auditing.conditions import Condition, parse_condition
from calmix.auditing.report import AuditReport, audit
from calmix.auditing.verdict import Verdict

__all__ = ["AuditReport", "Condition", "Verdict", "audit", "parse_condition"]
