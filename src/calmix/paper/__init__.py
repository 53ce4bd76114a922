"""The paper as commands: its tables, figures and claims, made from run folders."""

from calmix.paper.claims import claims_table

__all__ = ["claims_table"]
