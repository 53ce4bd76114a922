"""One thread a process: the suite runs in two of them, and results do not depend on the number of cores.

Hypothesis has no deadline: the time of an example depends on the load of the machine.
"""

import os
import signal

import hypothesis
import pytest
import torch

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in the background of a shell: tests send it
    signal.signal(signal.SIGINT, signal.default_int_handler)
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")


@pytest.fixture(autouse=True, scope="session")
def private_cache(tmp_path_factory):
    """Nothing is written to the user's cache."""
    os.environ["CALMIX_CACHE"] = str(tmp_path_factory.mktemp("cache"))
