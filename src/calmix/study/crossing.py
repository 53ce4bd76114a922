"""Where a line crosses zero, with its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from calmix.errors import InputError

LEVEL = 0.95
MIN_POINTS = 3


@dataclass(frozen=True)
class Crossing:
    """The line intercept + slope * x and the x where it is 0; an end of the interval is infinite where the
    slope may be 0."""

    value: float
    low: float
    high: float
    intercept: float
    slope: float

    def line(self, x: float) -> float:
        return self.intercept + self.slope * x


def find_crossing(x: Sequence[float], y: Sequence[float], errors: Sequence[float]) -> Crossing:
    """Least squares of y on x, weighted by the standard `errors` of y, and the interval of its zero by
    Fieller's theorem: all x0 at which the line may be 0.

    Points that scatter more than their errors say widen the interval by as much (Birge's ratio).

    >>> found = find_crossing([0, 1, 2, 3], [2.1, 0.9, 0.1, -1.1], [0.1] * 4)
    >>> tuple(round(float(number), 2) for number in (found.value, found.low, found.high))
    (1.98, 1.71, 2.3)
    """
    if not len(x) == len(y) == len(errors) or len(x) < MIN_POINTS:
        raise InputError(f"a crossing needs {MIN_POINTS} points or more, each with an error, got {len(x)}")
    design = np.stack([np.ones(len(x)), np.asarray(x, dtype=float)], axis=1)
    values, weights = np.asarray(y, dtype=float), 1 / np.square(np.maximum(errors, 1e-12))
    covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
    intercept, slope = (float(v) for v in covariance @ design.T @ (weights * values))
    residual = values - intercept - slope * design[:, 1]
    degrees = len(values) - 2
    covariance = covariance * max(1.0, float(weights @ residual**2) / degrees)
    quantile = float(stdtrit(degrees, (1 + LEVEL) / 2)) ** 2
    # (intercept + slope x)^2 = quantile * variance at x, a quadratic equation in x.
    a = slope**2 - quantile * covariance[1, 1]
    b = 2 * (intercept * slope - quantile * covariance[0, 1])
    c = intercept**2 - quantile * covariance[0, 0]
    value = -intercept / slope if slope else math.nan
    root = b**2 - 4 * a * c
    low, high = -math.inf, math.inf
    if a > 0 and root >= 0:
        low, high = ((-b - math.sqrt(root)) / (2 * a), (-b + math.sqrt(root)) / (2 * a))
    elif a < 0 and root >= 0:  # the complement of a range: what lies on the value's side
        ends = sorted((-b + sign * math.sqrt(root)) / (2 * a) for sign in (-1, 1))
        low, high = (ends[1], math.inf) if value >= ends[1] else (-math.inf, ends[0])
    return Crossing(value, low, high, intercept, slope)
