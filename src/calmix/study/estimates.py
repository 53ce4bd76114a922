"""Estimates over seeds: what a method measures, how sure that is, and the difference of two methods.

Two sources of noise are joined as independent errors are. The test images: by their influences, paired where
two methods saw the same images. The training: by the variance over seeds, which several methods share for one
quantity, so that few seeds of one method lean on those of the others.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit  # scipy.stats takes four times as long to import

from calmix.errors import InputError
from calmix.metrics import Interval
from calmix.study.quantities import Quantity
from calmix.study.results import Result

Array = npt.NDArray[np.float64]
LEVEL = 0.95
MIN_DEGREES = 8  # of freedom that an ensemble's own variance over seeds needs

# Quantities with an influence of each image: sums of those that are kept. The others have their seeds alone.
KNOWN = ("accuracy", "ece", "gap", "member_ece", "member_gap", "compounding", "dce", "ca", "cece")
INFLUENCES = {name: {name: 1.0} for name in KNOWN} | {
    "pooling": {"gap": 1.0, "member_gap": -1.0},
    # The scaled error's influences are of about the same size, and add where a temperature overshoots.
    "scaling_change": {"ece": 2.0},
    "corrupted_scaling_change": {"cece": 2.0},
}


class NotRunError(Exception):
    """A number is asked for whose run does not exist, or lacks a part of its evaluation."""


@dataclass(frozen=True)
class SeedVariance:
    """Variance of a quantity over seeds, and the degrees of freedom behind it (0: unknown)."""

    variance: float = 0.0
    degrees: int = 0

    @classmethod
    def pooled(cls, samples: Sequence[Sequence[float]]) -> "SeedVariance":
        """Shared by several methods, each with the values of its seeds."""
        several = [values for values in samples if len(values) > 1]
        degrees = sum(len(values) - 1 for values in several)
        if not degrees:
            return cls()
        squares = sum((len(values) - 1) * statistics.variance(values) for values in several)
        return cls(squares / degrees, degrees)

    @classmethod
    def of_ensemble(cls, own: Sequence[Sequence[float]], every: Sequence[Sequence[float]]) -> "SeedVariance":
        """Shared by the methods of one ensemble, or by `every` method where that one has too few seeds."""
        variance = cls.pooled(own)
        return variance if variance.degrees >= MIN_DEGREES else cls.pooled(every)


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mean over `seeds`, its variance by training with its degrees of freedom, and the influence of each
    test image on it, by image set; none where the noise of images is not known."""

    value: float
    seeds: int
    seed_variance: float = 0.0
    degrees: int = 0
    influences: dict[str, Array] = field(default_factory=dict)

    def __sub__(self, other: "Estimate") -> "Estimate":
        mine, theirs = self.influences, other.influences
        influences = {}
        if mine and theirs:  # where one side's noise is not known, that of the difference is not
            influences = {key: np.asarray(mine.get(key, 0.0) - theirs.get(key, 0.0)) for key in mine | theirs}
        seeds, degrees = min(self.seeds, other.seeds), min(self.degrees, other.degrees)
        variance = self.seed_variance + other.seed_variance
        return Estimate(self.value - other.value, seeds, variance, degrees, influences)

    def log(self) -> "Estimate":
        """Of the logarithm, to first order; a value of 0 or less has none."""
        if self.value <= 0:
            raise NotRunError("a value above 0")
        influences = {key: influence / self.value for key, influence in self.influences.items()}
        variance = self.seed_variance / self.value**2
        return Estimate(math.log(self.value), self.seeds, variance, self.degrees, influences)

    @property
    def half_width(self) -> float:
        """Of the interval; infinite where neither source of noise is known."""
        if not self.degrees and not self.influences:
            return math.inf
        images = sum(float(influence.var()) / len(influence) for influence in self.influences.values())
        half = ndtri((1 + LEVEL) / 2) * math.sqrt(images)
        if self.degrees:
            quantile = stdtrit(self.degrees, (1 + LEVEL) / 2)
            half = math.hypot(half, quantile * math.sqrt(self.seed_variance))
        return float(half)

    @property
    def interval(self) -> Interval:
        return Interval(self.value, self.value - self.half_width, self.value + self.half_width, level=LEVEL)


def estimate(results: Sequence[Result], quantity: Quantity, variance: SeedVariance) -> Estimate:
    """A quantity of runs that differ in their seed."""
    values = [quantity.of(result) for result in results]
    if not values or any(value is None for value in values):
        lacking = next((result.run.folder.name for result in results if quantity.of(result) is None), "a run")
        raise NotRunError(f"{quantity.title} of {lacking}")
    influences = {}
    if parts := INFLUENCES.get(quantity.noise or quantity.name):
        arrays = [_influence(result, parts) for result in results]
        condition = "corrupted" if parts.keys() & {"ca", "cece"} else "clean"
        key = f"{results[0].recipe.dataset}, {condition}, {len(arrays[0])} images"
        if all(len(array) == len(arrays[0]) for array in arrays):
            influences[key] = np.mean(arrays, axis=0)
    count = len(values)
    mean = statistics.fmean(value for value in values if value is not None)
    return Estimate(mean, count, variance.variance / count, variance.degrees, influences)


def _influence(result: Result, parts: Mapping[str, float]) -> Array:
    try:
        return np.asarray(sum(factor * result.influence(name) for name, factor in parts.items()))
    except InputError as error:
        raise NotRunError(str(error)) from None
