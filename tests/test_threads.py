"""Each in a fresh process: the environment is read when torch is imported."""

import os
import subprocess
import sys

COMMAND = """
import os
from calmix.cli import main
try:
    main(["data", "--json"])
except SystemExit as end:
    assert end.code == 0
import torch
print(torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS"), os.environ.get("MKL_NUM_THREADS"))
"""


def threads(**environment):
    """Torch's threads and the environment after a command."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND],
        env={**kept, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1].split()


def test_a_command_uses_one_thread_and_so_do_those_it_starts():
    assert threads() == ["1", "1", "1"]


def test_the_number_that_a_user_sets_is_left_alone():
    assert threads(OMP_NUM_THREADS="2") == ["2", "2", "None"]
