"""One thread a process: the suite runs in two of them, and results do not depend on the number of cores."""

import torch

torch.set_num_threads(1)
