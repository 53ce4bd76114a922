"""Benchmarks: each hot path relative to a lower bound or to another library in the same run.

A module is a benchmark: `rows(full)` yields what it measures, `Row`s and Markdown text, and its docstring
says how. `NAMES` are in the order in which they run.
"""

# Ratios that other work on the machine disturbs most come last: they are cut first where time runs out.
NAMES = (
    *("imports", "metrics", "reading", "audit", "corruptions", "augment", "data", "drawing"),
    *("evaluation", "networks", "training", "ensembles", "forecast", "folders"),
)
LONG = ("ensemble",)  # an hour or more: only where named
