"""Measurements as ratios: each hot path beside its limit or a public peer, in one run on one thread."""
