"""Benchmarks: each hot path relative to a lower bound or another library, in one run on one thread."""
