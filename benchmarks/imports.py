"""Start of a fresh process: imports beside `import torch`, and commands that need no torch.

Imports in CPU seconds, commands from start to end by the clock; each is the best of several.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.timing import Row

COMMAND = "from calmix.cli import main; main({words})"


def rows(full: bool = False) -> Iterator[Row]:
    repeats = 5 if full else 2
    lines = ("pass", "import torch", "import calmix", "from calmix import *")
    times = {line: [] for line in lines}  # type: dict[str, list[float]]
    for _ in range(repeats):
        for line in lines:
            times[line].append(_fresh(line)[0])
    python, torch, calmix, names = (min(times[line]) for line in lines)
    yield Row("import torch, the start of Python aside", torch - python, "s")
    yield Row("import calmix", (calmix - python) / (torch - python), "x torch", at_most=1.3, before=1.6)
    yield Row("from calmix import *: every public name", (names - python) / (torch - python), "x torch")
    for words in (["--help"], ["--version"], ["data"]):
        seconds = min(_fresh(COMMAND.format(words=words))[1] for _ in range(repeats))
        yield Row(f"calmix {' '.join(words)} (wall)", seconds, "s", at_most=1)


def _fresh(code: str) -> tuple[float, float]:
    """CPU seconds and wall-clock seconds of a new process that runs `code`."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=environment)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall
