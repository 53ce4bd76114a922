"""`python -m tests.torture --minutes 10 [--seed 0] [--state FILE] [--only PART] [--case NAME:SEED]`"""

import argparse
import contextlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import lightning_fabric  # noqa: F401  (children are forked, and have it then)
import torch

from calmix.cli import COMMANDS
from tests.torture import fuzz, options, runs  # noqa: F401  (they register their cases)
from tests.torture.cases import CASES, WEIGHTS, Hang, Tally, events, outcome
from tests.torture.runs import WORK

BATCH = {"fuzz": 100, "options": 100}  # cases of one child, which stops after a few seconds
BATCH_SECONDS = 4
ENOUGH = 9  # exit code of a child that stopped
CASE_SECONDS = 30
MEMORY = 8 * 2**30  # beyond what a child has at its start


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, help="file from which an interrupted campaign goes on")
    parser.add_argument("--only", default="", help="kinds of cases whose names contain this")
    parser.add_argument("--case", help="NAME:SEED, as a finding prints it")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    prepare()
    try:
        if args.case:
            name, _, seed = args.case.rpartition(":")
            finding = outcome(name, int(seed))
            print(finding or "held")
            return 1 if finding else 0
        tally = campaign(args.minutes, args.seed, args.only, args.state)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    print(tally.table())
    distinct = {finding: name for name, finding in reversed(tally.found)}
    for finding, name in distinct.items():
        times = sum(other == finding for _, other in tally.found)
        print(f"python -m tests.torture --case {name!r}  # {times} times: {finding}")
    return 1 if tally.found else 0 if tally.finished else 130


def prepare() -> None:
    torch.set_num_threads(1)
    for command in COMMANDS:  # before anything is forked
        importlib.import_module(f"calmix.cli.{command}")
    warnings.simplefilter("ignore")
    os.environ["CALMIX_CACHE"] = str(WORK / "cache")
    WORK.mkdir(exist_ok=True)
    folder = fuzz.samples()
    fuzz.run_main("report", folder / "runs", "--out", folder / "page.html")  # imports what draws


def campaign(minutes: float, seed: int, only: str = "", state: Path | None = None) -> Tally:
    """Cases of all kinds in turn, each kind with its share of the time, until it is over or interrupted.

    `state` keeps the tally: the same command goes on from there, and its minutes are those of all of it.
    """
    tally = Tally.load(state, seed)
    names = [name for name in CASES if only in name]
    draws = {name: random.Random(f"{seed} {name}") for name in names}
    for name in names:
        for _ in range(tally.drawn[name]):
            draws[name].randrange(10**9)
    with contextlib.suppress(KeyboardInterrupt):
        while sum(tally.seconds.values()) < 60 * minutes:
            name = min(names, key=lambda each: tally.seconds[each] / WEIGHTS[each])
            began = time.monotonic()
            size = BATCH.get(name.split()[0], 1)
            batch = [draws[name].randrange(10**9) for _ in range(size)]
            for number, finding in run_batch(name, batch, tally):
                tally.add(name, finding, f"{name}:{number}")
                if finding:
                    print(f"found: {name}:{number}: {finding}", file=sys.stderr, flush=True)
            tally.drawn[name] += size
            tally.seconds[name] += time.monotonic() - began
            tally.save(state, seed)
        if state is not None:
            state.unlink(missing_ok=True)
        tally.finished = True
    return tally


def run_batch(name: str, batch: list[int], tally: Tally) -> list[tuple[int, str | None]]:
    """Cases in this process where they fork themselves, else in a child that may crash."""
    if name.split()[0] not in BATCH:
        found = [(number, outcome(name, number)) for number in batch]
        tally.events.update(events)
        events.clear()
        return found
    with tempfile.NamedTemporaryFile(dir=WORK) as file:
        path = Path(file.name)
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                os._exit(in_child(name, batch, path))
            os._exit(70)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    ended = [(number, finding) for number, finding in lines]
    if len(ended) < len(batch) and status != ENOUGH:  # the next one ended the process
        ended.append((batch[len(ended)], f"it ends the process ({status})"))
    return ended


def in_child(name: str, batch: list[int], path: Path) -> int:
    def hang(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, hang)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1), os.dup2(null, 2)
    began = time.monotonic()
    for number in batch:
        if time.monotonic() - began > BATCH_SECONDS:
            return ENOUGH
        signal.alarm(CASE_SECONDS)
        finding = outcome(name, number)
        signal.alarm(0)
        with path.open("a") as file:
            file.write(json.dumps([number, finding]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
