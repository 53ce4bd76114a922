"""What a campaign is made of: kinds of cases, each a function of a seed, and the tally of how they ended."""

import contextlib
import json
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from calmix.records import write_json

CASES: dict[str, Callable[[int], None]] = {}
WEIGHTS: dict[str, float] = {}  # shares of the time


class Found(AssertionError):
    """A case that did not hold; the message says what was seen."""


class Hang(BaseException):
    """A case that took too long."""


def case(name: str, *, weight: float):
    """Register a kind of case: called with a seed, it raises `Found` where something does not hold."""

    def register(function):
        CASES[name], WEIGHTS[name] = function, weight
        return function

    return register


def expect(condition: object, message: str) -> None:
    if not condition:
        raise Found(message)


@dataclass
class Tally:
    """Numbers of one campaign; `drawn` counts cases begun, `events` what they did, such as kills."""

    tried: Counter = field(default_factory=Counter)
    held: Counter = field(default_factory=Counter)
    drawn: Counter = field(default_factory=Counter)
    seconds: Counter = field(default_factory=Counter)
    found: list[tuple[str, str]] = field(default_factory=list)
    events: Counter = field(default_factory=Counter)
    finished: bool = False

    @classmethod
    def load(cls, path: Path | None, seed: int) -> "Tally":
        """The tally of a campaign with this seed that was interrupted, or an empty one."""
        kept = json.loads(path.read_text()) if path is not None and path.exists() else {}
        if kept.pop("seed", seed) != seed:
            raise SystemExit(f"{path} is of another seed: remove it, or give its seed")
        counts = {k: Counter(v) for k, v in kept.items() if k not in ("found", "finished")}
        return cls(**counts, found=[tuple(each) for each in kept.get("found", [])])

    def save(self, path: Path | None, seed: int) -> None:
        if path is not None:
            write_json(path, {"seed": seed, **vars(self)})

    def add(self, name: str, finding: str | None, case_name: str) -> None:
        self.tried[name] += 1
        if finding is None:
            self.held[name] += 1
        else:
            self.found.append((case_name, finding))

    def table(self) -> str:
        """One row for each kind of case."""
        rows = [("", "tried", "held", "found")]
        for name in sorted(self.tried):
            tried, held = self.tried[name], self.held[name]
            rows.append((name, f"{tried:,}", f"{held:,}", f"{tried - held:,}"))
        total, held = sum(self.tried.values()), sum(self.held.values())
        rows.append(("together", f"{total:,}", f"{held:,}", f"{total - held:,}"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))
            )
            for r in rows
        ]
        events = ", ".join(f"{count:,} {name}" for name, count in sorted(self.events.items()))
        return "\n".join([*lines, f"within these: {events}" if events else ""]).rstrip()


events: Counter = Counter()  # of this process, collected by the campaign


def outcome(name: str, seed: int) -> str | None:
    """Run a case: None where it held, else what was found."""
    try:
        CASES[name](seed)
    except Found as error:
        return str(error)
    except Hang:
        return "it takes too long"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename.rpartition('/calmix/')[2]}:{last.lineno}"
        with contextlib.suppress(Exception):
            return f"{type(error).__name__}: {str(error)[:200]!r} at {place}"
        return f"{type(error).__name__} at {place}"
    return None
