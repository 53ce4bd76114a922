"""Verdict of an audit: one of five, and the reason in plain words."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from calmix.metrics import Interval

Verdict: TypeAlias = Literal[
    "calibrated",
    "over-confident",
    "under-confident",
    "under-confident by pooling",
    "compounding under-confidence",
]
DCE_TOLERANCE = 0.01  # a debiased error below one point counts as 0, however certain it is
TIE = 1e-6  # rounding of the ECE of equal members


@dataclass(frozen=True)
class Evidence:
    """What a verdict rests on. Gaps are accuracy - confidence; `member_*` are means over the members."""

    members: int
    accuracy: float
    gap: Interval
    ece: float
    dce: Interval
    member_gap: Interval
    member_ece: float


def decide(evidence: Evidence) -> Verdict:
    """The verdict, by the interval of the pool's gap, then by its members.

    - The interval lies below 0: over-confident.
    - It lies above 0: under-confident; *by pooling* where the members' mean gap is not surely above 0 (they
      are calibrated or over-confident), *compounding* where it is and the pool's ECE is above the members'
      mean. That a pool is less confident than its members proves nothing: it always is.
    - It holds 0: calibrated if the debiased error is near 0 too (its interval reaches 0, or it is below
      0.01). If not, errors of both directions cancel, and the larger side names the verdict.
    """
    gap, member_gap = evidence.gap, evidence.member_gap
    if gap.high < 0:
        return "over-confident"
    if gap.low > 0:
        if evidence.members > 1 and member_gap.low <= 0:
            return "under-confident by pooling"
        if evidence.members > 1 and evidence.ece > evidence.member_ece + TIE:
            return "compounding under-confidence"
        return "under-confident"
    if near_zero(evidence.dce):
        return "calibrated"
    return "over-confident" if gap.value < 0 else "under-confident"


def near_zero(dce: Interval) -> bool:
    return dce.low <= 0 or dce.value < DCE_TOLERANCE


def explain(evidence: Evidence, verdict: Verdict) -> str:
    """The verdict's evidence for a reader who has never heard of calibration."""
    gap, members = evidence.gap, evidence.members
    it = "The model" if members == 1 else f"The pool of {members} members"
    confidence = evidence.accuracy - gap.value
    text = (
        f"{it} is right in {_percent(evidence.accuracy)} of cases and {_percent(confidence)} sure on "
        f"average: a gap of {_points(gap)}."
    )
    if verdict == "calibrated":
        why = (
            "The gap is within what chance explains, and the error at single levels of confidence is small "
            f"or within it too (debiased error {_percent(evidence.dce.value)}): when it says 70 %, expect it "
            "to be right in about 70 % of cases."
        )
    elif gap.low <= 0 <= gap.high:
        why = (
            "On average that is within what chance explains, but the error at single levels of confidence is "
            f"not (debiased error {_percent(evidence.dce.value)}): it is too sure in some ranges and not "
            "sure enough in others, and the two cancel. The reliability diagram shows where."
        )
    elif verdict == "over-confident":
        why = "It claims to be surer than its results allow; do not take its confidence at face value."
    else:
        why = "It is right more often than it claims."
    return " ".join(filter(None, (text, why, _explain_members(evidence, verdict))))


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
    return f"{100 * gap.value:+.1f} points (interval {100 * gap.low:+.1f} to {100 * gap.high:+.1f})"
