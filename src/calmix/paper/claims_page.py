"""The claims as a section of the report page."""

from collections.abc import Sequence

from calmix.paper.claims import Judged
from calmix.report.markup import Html, tag


def claims_markup(judged: Sequence[Judged]) -> Html:
    """A table: the claim, its verdict, and its evidence to unfold.

    >>> from calmix.paper.claims import Part
    >>> found = Judged(1, "a < b", "holds", (Part("b - a", "holds", "+1"),))
    >>> claims_markup([found])[-87:]
    '<td>1. a &lt; b</td><td>holds</td><td>b - a: +1 (holds)</td></tr></tbody></table></div>'
    """
    heads = [tag("th", {"scope": "col"}, name) for name in ("claim", "verdict", "evidence")]
    rows = [
        tag("tr", None, tag("td", None, f"{c.number}. {c.claim}"), tag("td", None, c.verdict), _evidence(c))
        for c in judged
    ]
    table = tag("table", None, tag("thead", None, tag("tr", None, *heads)), tag("tbody", None, *rows))
    return tag("div", {"class": "scroll", "tabindex": "0"}, table)


def _evidence(claim: Judged) -> Html:
    if len(claim.lines) == 1:
        return tag("td", None, claim.lines[0])
    lines = [tag("div", None, line) for line in claim.lines]
    count = tag("summary", None, f"{len(lines)} comparisons")
    return tag("td", None, tag("details", None, count, *lines))
