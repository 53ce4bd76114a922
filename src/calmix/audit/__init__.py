"""The audit: whether members or pool are mis-calibrated, how surely so, for whom, and what would help."""

from calmix.audit.condition import Condition, parse_condition
from calmix.audit.report import AuditReport, audit
from calmix.audit.verdict import Verdict

__all__ = ["AuditReport", "Condition", "Verdict", "audit", "parse_condition"]
