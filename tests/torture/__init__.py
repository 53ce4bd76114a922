"""Torture: kills, injected errors, fuzzed files, several processes and extreme options, seeded and bounded.

`python -m tests.torture --minutes 10` prints one table (tried, held, found) and a one-line reproduction of
each finding; it exits with 1 if there is any. `--case NAME:SEED` runs one case again.
"""
