"""Threads of a process: one is fastest for the small tensors that calmix works on.

With torch's default, a thread for each core, commands took 3 to 9 times the CPU time (docs/log.md).
"""

import os
import sys

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def use_one_thread() -> None:
    """One thread for this process and those it starts, unless the environment names another number."""
    if any(name in os.environ for name in VARIABLES):
        return
    for name in VARIABLES:
        os.environ[name] = "1"
    if "torch" in sys.modules:  # has read the environment already
        import torch

        torch.set_num_threads(1)
