"""Calibration metrics relative to one pass over the data, to torchmetrics, and to fixed limits."""

import subprocess
import sys
from collections.abc import Iterator

import torch
from torchmetrics.functional.classification import multiclass_calibration_error

from benchmarks.timing import Row, cpu_seconds
from calmix.metrics import Accumulator, bootstrap, ece, null, sce, skce, smooth_ece

MEMORY = """
import ctypes, torch
from calmix import metrics
torch.set_num_threads(1)
probs = torch.rand({rows}, {classes}).{kind}()
probs /= probs.sum(1, keepdim=True)
labels = torch.randint({classes}, ({rows},))
for name in ("ece", "sce", "ace", "tace", "dce", "nll", "brier", "skce"):  # imports and caches
    getattr(metrics, name)(probs[:1000], labels[:1000])
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024
ctypes.CDLL(None).malloc_trim(0)  # return freed memory: its reuse would not be measured
open("/proc/self/clear_refs", "w").write("5")  # reset the peak
before = peak()
{call}
print(peak() - before)
"""


def megabytes(call: str, rows: int, classes: int = 10, kind: str = "float") -> float:
    """Growth of the peak resident memory, in a new process without freed memory to reuse."""
    code = MEMORY.format(call=call, rows=rows, classes=classes, kind=kind)
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(process.stdout)


def sample(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    probs = torch.softmax(2 * torch.randn(rows, 10, generator=draw), dim=1)
    return probs, torch.multinomial(probs, 1, generator=draw)[:, 0]


def rows() -> Iterator[Row]:
    probs, labels = sample(1_000_000)
    accumulator = Accumulator(10)
    one_pass, ece_time, sce_time, peer, streamed = cpu_seconds(
        lambda: torch.max(probs, dim=1),
        lambda: ece(probs, labels),
        lambda: sce(probs, labels),
        lambda: multiclass_calibration_error(probs, labels, 10),
        lambda: accumulator.update(probs, labels),
        repeats=7,
    )
    yield Row("torch.max(probs, dim=1), 1,000,000 x 10 float32", one_pass * 1e3, "ms")
    yield Row("ece, with validation", ece_time * 1e3, "ms")
    yield Row("  relative to torch.max", ece_time / one_pass, "x", at_most=2)
    yield Row("  torchmetrics relative to it", peer / ece_time, "x", at_least=2)
    yield Row(
        "  memory beyond the input", megabytes("metrics.ece(probs, labels)", 1_000_000), "MB", at_most=10
    )
    yield Row("sce relative to ece", sce_time / ece_time, "x", at_most=3)
    yield Row("Accumulator.update (all metrics) relative to ece", streamed / ece_time, "x")
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
    top, every, top_of_all, smooth = cpu_seconds(
        lambda: null(ece, few, few_labels),
        lambda: null(sce, few, few_labels),
        lambda: null(ece, probs, labels),
        lambda: smooth_ece(probs, labels),
        repeats=3,
    )
    yield Row("null of ece, 10,000 examples, 1,000 resamples", top, "s", at_most=0.5)
    yield Row("null of sce, 10,000 examples, 1,000 resamples", every, "s", at_most=1)
    yield Row("null of ece, 1,000,000 examples, 1,000 resamples", top_of_all, "s", at_most=2)
    for name in ("ece", "sce"):
        used = megabytes(f"metrics.null(metrics.{name}, probs, labels, resamples=100)", 1_000_000)
        yield Row(f"  memory beyond the input, {name}", used, "MB", at_most=150)
    yield Row("smooth_ece, 1,000,000 examples", smooth, "s", at_most=0.5)
