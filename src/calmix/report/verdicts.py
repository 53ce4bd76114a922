"""How a verdict looks on a page: a kind that has a colour and an icon, and one plain sentence."""

from dataclasses import dataclass

from calmix.auditing.verdict import Verdict


@dataclass(frozen=True)
class VerdictStyle:
    """`kind` is a class of the style sheet; `icon` the path of a 24 x 24 drawing, so that no colour is needed
    to tell verdicts apart."""

    kind: str
    icon: str
    plain: str


UP = "M12 20V5M5 12l7-7 7 7"
DOWN = "M12 4v15M5 12l7 7 7-7"
VERDICTS: dict[Verdict, VerdictStyle] = {
    "calibrated": VerdictStyle(
        "ok", "M4 13l5 5L20 6", "It is about as often right as it says. Its confidence can be relied on."
    ),
    "inconclusive": VerdictStyle(
        "unsure", "M8 8a4 4 0 1 1 5 4c-1 .4-1 1-1 3M12 19v.5", "There are too few examples to say."
    ),
    "over-confident": VerdictStyle("over", UP, "It is surer than it should be."),
    "under-confident": VerdictStyle("under", DOWN, "It is less sure than it could be."),
    "under-confident by pooling": VerdictStyle(
        "under", DOWN, "Averaging its members makes it less sure than it could be."
    ),
    "compounding under-confidence": VerdictStyle(
        "under", DOWN, "Its members are not sure enough, and averaging them makes that worse."
    ),
    "mixed": VerdictStyle(
        "mixed", "M7 20V5M3 9l4-4 4 4M17 4v15M13 15l4 4 4-4", "It is too sure here and not sure enough there."
    ),
}
