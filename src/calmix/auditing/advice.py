"""What to do about a verdict, in sentences that agree with it and with each other."""

from dataclasses import dataclass

from torch import Tensor

from calmix.auditing.remedies import NOTHING, Comparison
from calmix.auditing.verdict import Verdict


@dataclass(frozen=True)
class CAMixupAdvice:
    """Whether training with CAMixup is a remedy, and how many classes its rule would mix."""

    applies: bool
    mixed_by_pool: int
    mixed_by_members: float
    text: str


def advise_camixup(verdict: Verdict, members: int, true_class_gaps: Tensor) -> CAMixupAdvice:
    """From the gaps of each true class (1 + M, C), of the pool and of the members.

    CAMixup mixes classes whose gap is not above 0. It is a remedy for ensembles of networks whose
    under-confidence compounds, and for nothing else.
    """
    pool_gaps, member_gaps = true_class_gaps[0], true_class_gaps[1:]
    by_pool = int((pool_gaps <= 0).sum())
    by_members = float((member_gaps <= 0).sum(1).double().mean())
    applies = members > 1 and verdict == "compounding under-confidence"
    classes = int((~pool_gaps.isnan()).sum())
    text = (
        "If the members are networks trained with Mixup or label smoothing, train them with CAMixup instead: "
        "it mixes only the classes on which a member is over-confident, here about "
        f"{by_members:.0f} of {classes}."
    )
    return CAMixupAdvice(applies, by_pool, by_members, text if applies else "")


def advise(verdict: Verdict, comparison: Comparison, camixup: CAMixupAdvice) -> tuple[str, ...]:
    """One sentence for each thing to do, or one that says to do nothing."""
    chosen = comparison.recommended
    if chosen.method == NOTHING:
        return (_nothing(verdict), *filter(None, (camixup.text,)))
    what = "NLL" if chosen.difference_of == "nll" else "Brier score"
    ends = f"{chosen.difference.low:+.4f} to {chosen.difference.high:+.4f}"
    text = (
        f"Calibrate with {chosen.method}: on examples that its fit has not seen it changes the {what} by "
        f"{chosen.difference.value:+.4f} (interval {ends}), and the ECE from "
        f"{100 * comparison.remedies[0].ece:.1f} % to {100 * chosen.ece:.1f} %. It is the simplest remedy "
        "within noise of the best. Fit it on held-out data."
    )
    if verdict == "inconclusive":
        text = f"There are too few examples for a verdict, but one remedy surely helps. {text}"
    return (text, *filter(None, (camixup.text,)))


def _nothing(verdict: Verdict) -> str:
    if verdict == "calibrated":
        return "Leave it as it is: it is calibrated within the tolerance."
    if verdict == "inconclusive":
        return "Change nothing yet: no calibrator surely helps. Audit more examples."
    return (
        "No calibrator surely lowers the loss on examples that its fit has not seen. Collect more examples "
        "to fit one, and do not take the confidence at face value until then."
    )
