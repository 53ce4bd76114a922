"""The numbers that tables show: where they stand in a run folder, and what the paper says they are."""

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from calmix.corruptions import CORRUPTIONS
from calmix.paper.methods import SMOOTHED
from calmix.paper.study import Method, Result, Study
from calmix.report import paper_numbers as paper

Reading = Callable[[Result], float | None]
Published = tuple[float, float | None]  # the paper's number, and its spread over seeds where it gives one


@dataclass(frozen=True)
class Quantity:
    """A number of a run, None where the run lacks it; `published(dataset, ensemble, augment)` is the
    paper's."""

    title: str
    of: Reading
    published: Callable[[str, str, str], Published | None] = lambda *method: None
    digits: str = ".2f"

    def values(self, study: Study, method: Method) -> list[float]:
        """For each seed that has it."""
        found = (self.of(result) for result in study.results.get(method, ()))
        return [value for value in found if value is not None]


def _clean(name: str, factor: float = 100.0) -> Reading:
    return lambda result: factor * float(result.summary["clean"]["pool"][name])


def _members(name: str) -> Reading:
    def mean(result: Result) -> float:
        values = [member[name] for member in result.summary["clean"]["members"]]
        return 100 * float(sum(values)) / len(values)

    return mean


def _scaled(name: str, factor: float = 100.0) -> Reading:
    def reading(result: Result) -> float | None:
        scaled = result.summary["temperature"]
        return factor * float(scaled[name]) if scaled else None

    return reading


def _corrupted(name: str, factor: float = 100.0, of: str = "pool") -> Reading:
    """The mean over the benchmark's types and severities, where the run has them all."""

    def mean(result: Result) -> float | None:
        if not result.corrupted:
            return None
        rows = [row[of] for kind in CORRUPTIONS for row in result.summary["corrupted"][kind].values()]
        return factor * float(sum(row[name] for row in rows)) / len(rows) if all(rows) else None

    return mean


def _error(accuracy: Reading) -> Reading:
    def error(result: Result) -> float | None:
        value = accuracy(result)
        return None if value is None else 100 - value

    return error


def _seconds(result: Result) -> float | None:
    """Time in training, the members of an ensemble one after the other: a member's median epoch times its
    epochs, so that what else the machine did meanwhile counts little."""
    if not result.run.metrics.exists():
        return None
    epochs: dict[int, list[float]] = {}
    for line in map(json.loads, result.run.metrics.read_text().splitlines()):
        epochs.setdefault(line["member"], []).append(line["seconds"])
    return sum(len(seconds) * statistics.median(seconds) for seconds in epochs.values())


def _table(column: str, *, error: bool = False) -> Callable[..., Published | None]:
    """A column of the paper's tables, as an error where it is an accuracy."""

    def found(dataset: str, ensemble: str, augment: str) -> Published | None:
        method = ("imagenet" if dataset == "folder" else dataset, ensemble, augment)
        value = getattr(paper.paper_numbers(*method), column, None)
        if value is None:
            return None
        return (100 - value if error else value), getattr(paper.paper_spread(*method), column, None)

    return found


def _ece(dataset: str, ensemble: str, augment: str) -> Published | None:
    """Of the paper's tables; with label smoothing, of its authors' notebook."""
    for row in paper.SMOOTHED:
        if (row.dataset, row.ensemble, f"{SMOOTHED}{row.smoothing:g}") == (dataset, ensemble, augment):
            return row.ece, None
    return _table("ece")(dataset, ensemble, augment)


def _skce(column: str) -> Callable[..., Published | None]:
    def found(*method: str) -> Published | None:
        held = (row for row in paper.SKCE if (row.dataset, row.ensemble, row.augment) == method)
        row = next(held, None)
        return (getattr(row, column), None) if row else None

    return found


ACCURACY = Quantity("accuracy %", _clean("accuracy"), _table("accuracy"))
ERROR = Quantity("error %", _error(_clean("accuracy")), _table("accuracy", error=True))
ECE = Quantity("ECE %", _clean("ece"), _ece)
GAP = Quantity("gap", _clean("gap"), digits="+.2f")
DCE = Quantity("DCE %", _clean("dce"))
ACE = Quantity("ACE %", _clean("ace"))
SCE = Quantity("SCE %", _clean("sce"))
TACE = Quantity("TACE %", _clean("tace"))
NLL = Quantity("NLL", _clean("nll", 1.0), digits=".3f")
SKCE = Quantity("SKCE", _clean("skce", 1.0), _skce("clean"), digits=".2g")
MEMBER_ERROR = Quantity("members' error %", _error(_members("accuracy")))
MEMBER_ECE = Quantity("members' ECE %", _members("ece"))
MEMBER_GAP = Quantity("members' gap", _members("gap"), digits="+.2f")
CA = Quantity("cA %", _corrupted("accuracy"), _table("ca"))
CERROR = Quantity("cError %", _error(_corrupted("accuracy")), _table("ca", error=True))
CECE = Quantity("cECE %", _corrupted("ece"), _table("cece"))
CDCE = Quantity("cDCE %", _corrupted("dce"))
CSKCE = Quantity("cSKCE", _corrupted("skce", 1.0), _skce("corrupted"), digits=".2g")
CACE = Quantity("cACE %", _corrupted("ace"))
CSCE = Quantity("cSCE %", _corrupted("sce"))
CTACE = Quantity("cTACE %", _corrupted("tace"))
TEMPERATURE = Quantity("T", _scaled("temperature", 1.0))
SCALED_ECE = Quantity("ECE % at T", _scaled("ece"))
SCALED_DCE = Quantity("DCE % at T", _scaled("dce"))
SCALED_NLL = Quantity("NLL at T", _scaled("nll", 1.0), digits=".3f")
SCALED_CECE = Quantity("cECE % at T", _corrupted("ece", of="temperature"))
SECONDS = Quantity("training s", _seconds, digits=".0f")
