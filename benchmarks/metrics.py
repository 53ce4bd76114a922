"""Calibration metrics beside one pass over the data, beside torchmetrics, and beside fixed limits."""

import subprocess
import sys
from collections.abc import Iterator

import torch
from torchmetrics.functional.classification import multiclass_calibration_error

from benchmarks.timing import Row, cpu_seconds
from calmix.metrics import Accumulator, bootstrap, ece, sce, skce

MEMORY = """
import ctypes, torch
from calmix import metrics
torch.set_num_threads(1)
probs = torch.rand({rows}, {classes}).{kind}()
probs /= probs.sum(1, keepdim=True)
labels = torch.randint({classes}, ({rows},))
for name in ("ece", "sce", "ace", "tace", "dce", "nll", "brier", "skce"):  # what is loaded once
    getattr(metrics, name)(probs[:1000], labels[:1000])
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024
ctypes.CDLL(None).malloc_trim(0)  # give back what was freed: it must not serve again unseen
open("/proc/self/clear_refs", "w").write("5")  # the peak begins here
before = peak()
{call}
print(peak() - before)
"""


def megabytes(call: str, rows: int, classes: int = 10, kind: str = "float") -> float:
    """Growth of the resident peak in a process of its own, where nothing has been freed to be used again."""
    code = MEMORY.format(call=call, rows=rows, classes=classes, kind=kind)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def sample(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    probs = torch.softmax(2 * torch.randn(rows, 10, generator=draw), dim=1)
    return probs, torch.multinomial(probs, 1, generator=draw)[:, 0]


def rows() -> Iterator[Row]:
    probs, labels = sample(1_000_000)
    accumulator = Accumulator(10)
    one_pass, ours, static, peer, streamed = cpu_seconds(
        lambda: torch.max(probs, dim=1),
        lambda: ece(probs, labels),
        lambda: sce(probs, labels),
        lambda: multiclass_calibration_error(probs, labels, 10),
        lambda: accumulator.update(probs, labels),
        repeats=7,
    )
    yield Row("torch.max(probs, dim=1), 1,000,000 x 10 float32", one_pass * 1e3, "ms")
    yield Row("ece, checks included", ours * 1e3, "ms")
    yield Row("  beside torch.max", ours / one_pass, "x", at_most=2)
    yield Row("  torchmetrics beside it", peer / ours, "x", at_least=2)
    yield Row(
        "  memory beyond the input", megabytes("metrics.ece(probs, labels)", 1_000_000), "MB", at_most=10
    )
    yield Row("sce beside ece", static / ours, "x", at_most=3)
    yield Row("Accumulator.update (all of it) beside ece", streamed / ours, "x")
    for call in ("sce", "ace", "tace", "dce", "nll", "brier"):
        used = megabytes(f"metrics.{call}(probs, labels)", 1_000_000)
        yield Row(f"{call}: memory beyond the input", used, "MB", at_most=probs.nbytes / 2**20)
    few, few_labels = probs[:10_000], labels[:10_000]
    quadratic, linear, resampled = cpu_seconds(
        lambda: skce(few, few_labels, bandwidth=0.5),
        lambda: skce(probs, labels, estimator="linear", bandwidth=0.5),
        lambda: bootstrap(ece, few, few_labels),
        repeats=3,
    )
    yield Row("skce, unbiased, 10,000 examples", quadratic, "s", at_most=1)
    used = megabytes("metrics.skce(probs, labels, bandwidth=0.5)", 10_000)
    yield Row("  memory beyond the input", used, "MB", at_most=100)
    yield Row("skce, linear, 1,000,000 examples", linear, "s", at_most=3)
    yield Row("bootstrap of ece, 10,000 examples, 1,000 resamples", resampled, "s", at_most=2)
    (large,) = cpu_seconds(lambda: bootstrap(ece, probs, labels), repeats=1)
    yield Row("bootstrap of ece, 1,000,000 examples, 200 resamples", large, "s")
    used = megabytes("metrics.bootstrap(metrics.ece, probs, labels, resamples=128)", 1_000_000)
    yield Row("  memory beyond the input", used, "MB", at_most=100)
