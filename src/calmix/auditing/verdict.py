"""Verdict of an audit: one of seven, and the reason in plain words."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from calmix.auditing.gaps import examples_for_half_width, gap_interval, gap_sums
from calmix.auditing.miscalibration import ErrorTest, miscalibration_tests
from calmix.auditing.summary import Summary
from calmix.metrics import Interval, ece

Verdict: TypeAlias = Literal[
    "calibrated",
    "inconclusive",
    "over-confident",
    "under-confident",
    "under-confident by pooling",
    "compounding under-confidence",
    "mixed",
]
GAP_SHARE = 0.6  # of the verdict's false alarms: 3 of 5 % for the gap, the rest for the tests
TIE = 1e-6  # rounding of the ECE of equal members


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on. Gaps are accuracy - confidence; `member_*` are means over the members.

    `positive` is the gap of P(y = 1), rate - mean probability, of two classes. `examples_needed` is the
    number of examples at which the half-width of the gap's interval would be half the tolerance.
    """

    members: int
    examples: int
    accuracy: float
    gap: Interval
    ece: float
    member_gap: Interval
    member_ece: float
    tests: tuple[ErrorTest, ...]
    tolerance: float
    examples_needed: int
    positive: Interval | None = None


def gather_evidence(
    summary: Summary, *, tolerance: float = 0.02, level: float = 0.95, seed: int = 0
) -> Evidence:
    """The verdict's inputs alone. Its false alarms are 1 - level in all, split between gap and tests."""
    gap_level = 1 - GAP_SHARE * (1 - level)
    test_level = 1 - (1 - GAP_SHARE) * (1 - level)
    sums = gap_sums(summary.confidence, summary.hit)
    positive = None
    if summary.binary:
        rate = gap_sums(summary.probs[:, 1], (summary.labels == 1).double())
        positive = gap_interval(rate, level=gap_level)
    return Evidence(
        members=summary.members,
        examples=summary.examples,
        accuracy=float(summary.hit.mean()),
        gap=gap_interval(sums, level=gap_level),
        # Of the top label: hits against confidences, as of a binary event.
        ece=ece(summary.confidence, summary.hit.long()),
        # Of each example the mean over members, whose mean is the mean gap.
        member_gap=gap_interval(gap_sums(summary.member_confidence, summary.member_hit), level=gap_level),
        member_ece=float(summary.member_ece.mean()),
        tests=miscalibration_tests(summary, level=test_level, seed=seed),
        tolerance=tolerance,
        examples_needed=examples_for_half_width(sums, tolerance / 2, level=gap_level),
        positive=positive,
    )


def decide(evidence: Evidence) -> Verdict:
    """The verdict; the first of these rules that applies, with [low, high] the gap's interval.

    1. It lies below 0 and reaches beyond -tolerance: over-confident. It lies above 0 and reaches beyond the
       tolerance: under-confident; *by pooling* where the members' mean gap is not surely above 0 (they are
       calibrated or over-confident), *compounding* where it is and the pool's ECE is above the members' mean.
       That a pool is less confident than its members proves nothing: it always is.
    2. A test finds errors, and the debiased error may be as large as the tolerance: mixed. Errors of both
       directions cancel in the gap.
    3. The interval lies within the tolerance: calibrated.
    4. Too few examples to say: inconclusive.
    """
    gap, member_gap, tolerance = evidence.gap, evidence.member_gap, evidence.tolerance
    if gap.high < 0 and gap.low < -tolerance:
        return "over-confident"
    if gap.low > 0 and gap.high > tolerance:
        if evidence.members > 1 and member_gap.low <= 0:
            return "under-confident by pooling"
        if evidence.members > 1 and evidence.ece > evidence.member_ece + TIE:
            return "compounding under-confidence"
        return "under-confident"
    if significant(evidence):
        return "mixed"
    if -tolerance <= gap.low and gap.high <= tolerance:
        return "calibrated"
    return "inconclusive"


def significant(evidence: Evidence) -> tuple[ErrorTest, ...]:
    """The tests that found an error which may be as large as the tolerance."""
    return tuple(test for test in evidence.tests if test.rejected and test.error.high >= evidence.tolerance)


def explain(evidence: Evidence, verdict: Verdict) -> str:
    """The verdict's evidence for a reader who has never heard of calibration."""
    gap, members = evidence.gap, evidence.members
    it = "The model" if members == 1 else f"The pool of {members} members"
    confidence = evidence.accuracy - gap.value
    text = (
        f"{it} is right in {_percent(evidence.accuracy)} of {evidence.examples:,} cases and "
        f"{_percent(confidence)} sure on average: a gap of {_points(gap)}."
    )
    return " ".join(filter(None, (text, _reason(evidence, verdict), _explain_members(evidence, verdict))))


def _reason(evidence: Evidence, verdict: Verdict) -> str:
    tolerance = f"{100 * evidence.tolerance:g} points"
    if verdict == "over-confident":
        return "It claims to be surer than its results allow: do not take its confidence at face value."
    if verdict == "mixed":
        return _cancelling(evidence)
    if verdict == "calibrated":
        text = (
            f"The whole interval is within the tolerance of {tolerance}, and no larger error shows at single "
            "levels of confidence: when it says 70 %, expect it to be right in about 70 % of cases."
        )
        if any(test.rejected for test in evidence.tests):
            text += " An error that is surely not chance remains, but it is smaller than the tolerance."
        return text
    if verdict == "inconclusive":
        needed, n = evidence.examples_needed, evidence.examples
        missing = (
            f"about {needed:,} examples would do, {max(needed - n, 1):,} more than there are"
            if needed > n
            else "the gap is near the tolerance, and only several times as many examples would tell"
        )
        return (
            f"That is neither surely wrong nor surely within the tolerance of {tolerance}: too few examples "
            f"to say; {missing}."
        )
    return "It is right more often than it claims."


def _cancelling(evidence: Evidence) -> str:
    tests = significant(evidence)
    positive = evidence.positive
    if positive is not None and (positive.high < 0 or positive.low > 0):
        direction = "too low" if positive.value > 0 else "too high"
        return (
            "That average hides errors of both directions: P(y = 1) is "
            f"{direction} by {abs(100 * positive.value):.1f} points (interval of rate minus mean probability "
            f"{_ends(positive)}), which makes one class's predictions too sure and the other's "
            "not sure enough."
        )
    test = min(tests, key=lambda test: test.p_value)
    where = {"top label": "levels of confidence", "P(y = 1)": "levels of P(y = 1)"}.get(test.name, "classes")
    return (
        f"That average hides errors of both directions: it is too sure at some {where} and not sure "
        f"enough at others, by about {_percent(test.error.value)} (p = {test.p_value:.2g}; a calibrated "
        "model would seldom show as much). The reliability diagram and the class table show where."
    )


def _explain_members(evidence: Evidence, verdict: Verdict) -> str:
    if evidence.members == 1:
        return ""
    gap = evidence.member_gap
    if gap.low > 0:
        state = "under-confident"
    elif gap.high < 0:
        state = "over-confident"
    else:
        state = "about right"
    text = f"Alone, its members are {state} on average, with a gap of {_points(gap)}"
    errors = f"ECE {_percent(evidence.ece)} against {_percent(evidence.member_ece)} for the mean member"
    if verdict == "under-confident by pooling":
        return (
            f"{text}: it is the averaging of members that disagree which takes away confidence without "
            f"taking away accuracy ({errors})."
        )
    if verdict == "compounding under-confidence":
        return (
            f"{text}, and averaging makes them less sure still: the two add up, and the pool is worse "
            f"calibrated than its members ({errors}). Mixup and label smoothing do this to an ensemble."
        )
    return f"{text} ({errors}). Every pool is less confident than its members on average."


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _points(gap: Interval) -> str:
    return f"{100 * gap.value:+.1f} points ({100 * gap.level:g} % interval {_ends(gap)})"


def _ends(gap: Interval) -> str:
    return f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}"
