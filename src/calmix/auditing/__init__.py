"""Audit of predictions: is an ensemble mis-calibrated, how certain is that, and what would help."""

from calmix.auditing.conditions import Condition, parse_condition
from calmix.auditing.procedure import audit
from calmix.auditing.report import AuditReport
from calmix.auditing.verdict import Verdict

__all__ = ["AuditReport", "Condition", "Verdict", "audit", "parse_condition"]
