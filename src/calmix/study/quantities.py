"""Quantities of a run that tables and figures show. Values are fractions; per cent is made for text alone."""

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from calmix.corruptions import CORRUPTIONS
from calmix.runs.summary import Summary
from calmix.study import joint, subsets
from calmix.study.results import Result

Reading: TypeAlias = Callable[[Result], float | None]


@dataclass(frozen=True)
class Quantity:
    """A number of a run, None where the run lacks it.

    `name` is its key for programs, `title` and `description` are for readers. A percentage is a fraction
    shown in per cent, points are a signed difference of such. `noise` names another quantity whose influences
    of test images are about its own.
    """

    name: str
    title: str
    description: str
    of: Reading
    unit: Literal["percent", "points", "number"] = "percent"
    digits: int = 2
    better: Literal["lower", "higher", "zero"] | None = "lower"
    noise: str = ""

    @property
    def factor(self) -> float:
        """Of its values in text and on axes."""
        return 1.0 if self.unit == "number" else 100.0

    @property
    def heading(self) -> str:
        """The title with its unit."""
        return f"{self.title} %" if self.unit == "percent" else self.title

    def values(self, results: Iterable[Result]) -> list[float]:
        """Of each run that has it."""
        return [value for result in results if (value := self.of(result)) is not None]

    def text(self, value: float, *, signed: bool = True) -> str:
        """
        >>> ECE.text(0.0123), GAP.text(0.02), SKCE.text(0.00034)
        ('1.23', '+2.00', '0.00034')
        """
        sign = "+" if self.unit == "points" and signed else ""
        kind = "g" if self.name.endswith("skce") else "f"
        return f"{self.factor * value:{sign}.{self.digits}{kind}}"

    def cost(self, value: float) -> float:
        """Least for the best value; nan where none is better than another."""
        if self.better is None:
            return math.nan
        return abs(value) if self.better == "zero" else -value if self.better == "higher" else value


def _summary(read: Callable[[Summary], float | None]) -> Reading:
    return lambda result: None if result.summary is None else read(result.summary)


def _clean(metric: str, of: Literal["pool", "scaled"] = "pool") -> Reading:
    return _summary(lambda summary: getattr(getattr(summary.clean, of), metric, None))


def _members(metric: str) -> Reading:
    return _summary(lambda summary: summary.clean.members_mean(metric))


def _corrupted(metric: str, of: Literal["pool", "scaled"] = "pool") -> Reading:
    return _summary(lambda summary: summary.corrupted_mean(metric, of=of))


def _less(first: Reading, second: Reading) -> Reading:
    def difference(result: Result) -> float | None:
        a, b = first(result), second(result)
        return None if a is None or b is None else a - b

    return difference


def _error(accuracy: Reading) -> Reading:
    return _less(lambda result: 1.0, accuracy)


ACCURACY = Quantity("accuracy", "Acc", "test accuracy", _clean("accuracy"), better="higher")
ERROR = Quantity("error", "error", "test error", _error(ACCURACY.of), noise="accuracy")
ECE = Quantity("ece", "ECE", "expected calibration error, 15 bins", _clean("ece"))
_GAP = "accuracy - confidence; above 0 is under-confident"
GAP = Quantity("gap", "gap", _GAP, _clean("gap"), "points", better="zero")
DCE = Quantity("dce", "DCE", "debiased calibration error", _clean("dce"))
ACE = Quantity("ace", "ACE", "ECE in bins of equal mass", _clean("ace"))
SCE = Quantity("sce", "SCE", "mean over classes of the class-wise ECE", _clean("sce"))
TACE = Quantity("tace", "TACE", "class-wise ACE of probabilities above 1 %", _clean("tace"))
NLL = Quantity("nll", "NLL", "negative log-likelihood", _clean("nll"), "number", digits=3)
SKCE = Quantity("skce", "SKCE", "squared kernel calibration error", _clean("skce"), "number", better="zero")


def _of_members(quantity: Quantity, of: Reading) -> Quantity:
    name, title = f"member_{quantity.name}", f"members' {quantity.title}"
    return replace(quantity, name=name, title=title, description="mean of the members alone", of=of, noise="")


MEMBER_ERROR = _of_members(ERROR, _error(_members("accuracy")))
MEMBER_ECE = _of_members(ECE, _members("ece"))
MEMBER_GAP = _of_members(GAP, _members("gap"))


def _under_corruption(quantity: Quantity, title: str, what: str, of: Reading) -> Quantity:
    description = f"{what}, mean over 15 corruptions x 5 severities"
    noise = "ca" if quantity.noise == "accuracy" else ""
    return replace(quantity, name=title.lower(), title=title, description=description, of=of, noise=noise)


CORRUPTED_ACCURACY = _under_corruption(ACCURACY, "cA", "accuracy", _corrupted("accuracy"))
CORRUPTED_ERROR = _under_corruption(ERROR, "cError", "error", _error(CORRUPTED_ACCURACY.of))
CORRUPTED_ECE, CORRUPTED_DCE, CORRUPTED_ACE, CORRUPTED_SCE, CORRUPTED_TACE, CORRUPTED_SKCE, CORRUPTED_NLL = (
    _under_corruption(quantity, f"c{quantity.title}", quantity.title, _corrupted(quantity.name))
    for quantity in (ECE, DCE, ACE, SCE, TACE, SKCE, NLL)
)


def at_severity(severity: int) -> tuple[Quantity, ...]:
    """ECE, ACE, SCE and TACE at one severity, means over the benchmark's types of corruption."""

    def reading(metric: str) -> Reading:
        def mean(summary: Summary) -> float | None:
            scores = [summary.corrupted.get(name, {}).get(severity) for name in CORRUPTIONS]
            known = [getattr(each.pool, metric) for each in scores if each]
            return statistics.fmean(known) if len(known) == len(scores) else None

        return _summary(mean)

    return tuple(
        replace(quantity, name=f"{quantity.name}_severity_{severity}", of=reading(quantity.name))
        for quantity in (ECE, ACE, SCE, TACE)
    )


def _at_temperature(quantity: Quantity, of: Reading) -> Quantity:
    name, title = f"scaled_{quantity.name}", f"{quantity.title} at T"
    return replace(
        quantity, name=name, title=title, description=f"{quantity.title} at the pool's temperature", of=of
    )


_T = "temperature of the pool, fitted on validation data"
TEMPERATURE = Quantity("temperature", "T", _T, _summary(lambda s: s.temperature), "number", better=None)
SCALED_ECE, SCALED_DCE, SCALED_NLL = (_at_temperature(x, _clean(x.name, "scaled")) for x in (ECE, DCE, NLL))
SCALED_CORRUPTED_ECE, SCALED_CORRUPTED_NLL = (
    _at_temperature(x, _corrupted(x.name.removeprefix("c"), "scaled")) for x in (CORRUPTED_ECE, CORRUPTED_NLL)
)


def _with_joint(quantity: Quantity) -> Quantity:
    place = joint.METRICS.index(quantity.name)

    def read(result: Result) -> float | None:
        return None if result.joint is None or math.isnan(value := result.joint[place]) else float(value)

    text, name = f"{quantity.title} with the joint calibrator", f"joint_{quantity.name}"
    # It changes few decisions, so accuracy keeps its noise of test images; the errors' is not known.
    noise = quantity.name if quantity.better == "higher" else ""
    return replace(quantity, name=name, description=text, of=read, noise=noise)


JOINT_ACCURACY, JOINT_ECE, JOINT_NLL, JOINT_CORRUPTED_ACCURACY, JOINT_CORRUPTED_ECE, JOINT_CORRUPTED_NLL = (
    _with_joint(x) for x in (ACCURACY, ECE, NLL, CORRUPTED_ACCURACY, CORRUPTED_ECE, CORRUPTED_NLL)
)


def of_size(quantity: Quantity, members: int) -> Quantity:
    """A quantity of the pool of `members` members of a deep ensemble, mean over its subsets of that size; its
    noise of test images is that of single members, or of the whole pool."""
    row = subsets.METRICS.index(quantity.name)

    def read(result: Result) -> float | None:
        scores = result.subsets
        return None if scores is None or scores.shape[1] < members else float(scores[row, members - 1])

    name, title = f"{quantity.name}_of_{members}", f"{quantity.title} of {members}"
    text = f"{quantity.description}; mean over subsets of {members} members"
    noise = f"member_{quantity.name}" if members == 1 else quantity.name
    return replace(quantity, name=name, title=title, description=text, of=read, noise=noise)


def _change(name: str, text: str, first: Quantity, second: Quantity, title: str = "") -> Quantity:
    title = title or f"{first.title} - {second.title}"
    return Quantity(name, title, text, _less(first.of, second.of), "points")


_COMPOUNDING, _POOLING = (f"{what} of the pool less the members' mean" for what in ("ECE", "gap"))
_SCALING = "what the pool's temperature changes"
COMPOUNDING = _change("compounding", _COMPOUNDING, ECE, MEMBER_ECE, "pool's - members' ECE")
POOLING = _change("pooling", _POOLING, GAP, MEMBER_GAP, "pool's - members' gap")
SCALING_CHANGE = _change("scaling_change", _SCALING, SCALED_ECE, ECE)
CORRUPTED_SCALING_CHANGE = _change(
    "corrupted_scaling_change", f"{_SCALING} under corruption", SCALED_CORRUPTED_ECE, CORRUPTED_ECE
)
_SECONDS = "training time, members one after the other"
SECONDS = Quantity("seconds", "training s", _SECONDS, lambda result: result.seconds, "number", digits=0)

QUANTITIES = {
    quantity.name: quantity for quantity in list(globals().values()) if isinstance(quantity, Quantity)
}
"""Every quantity by its name for programs."""

COLUMNS = (
    *(ACCURACY, ECE, CORRUPTED_ACCURACY, CORRUPTED_ECE, DCE, NLL, GAP),
    *(MEMBER_ECE, MEMBER_GAP, SCALED_ECE),
)
"""The columns of a table of runs, on the page, the terminal and in Markdown."""
