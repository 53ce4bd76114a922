"""Calibration metrics relative to one pass over the data, to torchmetrics, and to fixed limits.

torchmetrics is called as its documentation does, its checks of the arguments included: the function
`multiclass_calibration_error` on the whole array, and the class `MulticlassCalibrationError`, updated batch
by batch as in a loop over a loader. Ours are called with all their checks, too.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torchmetrics.classification import MulticlassCalibrationError
from torchmetrics.functional.classification import multiclass_calibration_error

from benchmarks.timing import Row, cpu_seconds
from calmix.metrics import Accumulator, bootstrap, ece, null, sce, skce, smooth_ece

ROWS = 1_000_000
BATCH = 1000
MEMORY = """
import ctypes, torch
from calmix import metrics
torch.set_num_threads(1)
probs = torch.rand({rows}, 10)
probs /= probs.sum(1, keepdim=True)
labels = torch.randint(10, ({rows},))
few, targets = probs[:10_000].clone(), labels[:10_000].clone()
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024
for call in {calls}:
    exec(call.replace("probs", "probs[:1000]").replace("labels", "labels[:1000]"))  # imports and caches
    ctypes.CDLL(None).malloc_trim(0)  # return freed memory: its reuse would not be measured
    open("/proc/self/clear_refs", "w").write("5")  # reset the peak
    before = peak()
    exec(call)
    print(peak() - before)
"""


def megabytes(calls: Sequence[str], rows: int = ROWS) -> list[float]:
    """Growth of the peak resident memory by each call, in a new process without freed memory to reuse."""
    code = MEMORY.format(calls=list(calls), rows=rows)
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [float(line) for line in process.stdout.splitlines()]


def sample(rows: int, classes: int = 10, kind: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    probs = torch.softmax(2 * torch.randn(rows, classes, generator=draw, dtype=kind), dim=1)
    return probs, torch.multinomial(probs, 1, generator=draw)[:, 0]


def rows(full: bool = False) -> Iterator[Row]:
    repeats = 7 if full else 4
    for name, classes, kind, numpy in (
        ("1,000,000 x 10, float32", 10, torch.float32, False),
        ("1,000,000 x 10, float64", 10, torch.float64, False),
        ("1,000,000 x 10, float32, NumPy", 10, torch.float32, True),
        ("1,000,000 x 2, float32", 2, torch.float32, False),
        ("100,000 x 100, float32", 100, torch.float32, False),
        ("10,000 x 1,000, float32", 1000, torch.float32, False),
    ):
        probs, labels = sample(min(ROWS, 10 * ROWS // classes), classes, kind)
        yield from beside_peers(name, probs, labels, numpy, repeats)
    yield from memory()
    yield from resampling(full)


def beside_peers(name: str, probs: Tensor, labels: Tensor, numpy: bool, repeats: int) -> Iterator[Row]:
    """ECE, SCE and the accumulator of one array beside torch.max of the same array and torchmetrics."""
    classes = probs.shape[1]
    accumulator = Accumulator(classes)
    given = (probs.numpy(), labels.numpy()) if numpy else (probs, labels)

    def in_batches() -> object:
        metric = MulticlassCalibrationError(classes)
        for start in range(0, len(probs), BATCH):
            metric.update(probs[start : start + BATCH], labels[start : start + BATCH])
        return metric.compute()

    functions: list[Callable[[], object]] = [
        lambda: torch.max(probs, dim=1),
        lambda: ece(*given),
        lambda: sce(*given),
        lambda: accumulator.update(*given),
        lambda: multiclass_calibration_error(probs, labels, classes),
        in_batches,
    ]
    one_pass, ours, every, streamed, peer, peer_batches = cpu_seconds(*functions, repeats=repeats)
    before = (
        {"ece": 1.8, "peer": 1.46} if classes == 10 and not numpy and probs.dtype == torch.float32 else {}
    )
    yield Row(f"torch.max(probs, dim=1), {name}", one_pass * 1e3, "ms")
    yield Row("  ece relative to it", ours / one_pass, "x", at_most=1.6, before=before.get("ece"))
    yield Row("  Accumulator.update (all metrics) relative to ece", streamed / ours, "x", at_most=2.5)
    yield Row("  sce relative to ece", every / ours, "x", at_most=3 if classes == 10 else None)
    yield Row(
        "  torchmetrics, function, relative to ece", peer / ours, "x", at_least=2, before=before.get("peer")
    )
    yield Row(
        f"  torchmetrics, class in batches of {BATCH:,}, relative to ece",
        peer_batches / ours,
        "x",
        at_least=2,
    )


def memory() -> Iterator[Row]:
    """Memory of 1,000,000 x 10 probabilities in float32, which are 38 MB."""
    limits = {
        "metrics.ece(probs, labels)": 20,
        **{f"metrics.{name}(probs, labels)": 38 for name in ("sce", "ace", "tace", "dce", "nll", "brier")},
        "metrics.skce(few, targets, bandwidth=0.5)": 100,
        "metrics.bootstrap(metrics.ece, probs, labels, resamples=128)": 100,
        "metrics.null(metrics.ece, probs, labels, resamples=100)": 150,
        "metrics.null(metrics.sce, probs, labels, resamples=100)": 150,
    }
    for (call, limit), used in zip(limits.items(), megabytes(list(limits)), strict=True):
        name = call.replace("metrics.", "").replace("few", "10,000 examples", 1).replace(", targets", "")
        yield Row(f"memory beyond the input: {name}", used, "MB", at_most=limit)


def resampling(full: bool) -> Iterator[Row]:
    probs, labels = sample(ROWS)
    few, targets = probs[:10_000], labels[:10_000]
    functions: dict[tuple[str, float], Callable[[], object]] = {
        ("skce, unbiased, 10,000 examples", 1): lambda: skce(few, targets, bandwidth=0.5),
        ("skce, linear, 1,000,000 examples", 3): lambda: skce(
            probs, labels, estimator="linear", bandwidth=0.5
        ),
        ("bootstrap of ece, 10,000 examples, 1,000 resamples", 2): lambda: bootstrap(ece, few, targets),
        ("null of ece, 10,000 examples, 1,000 resamples", 0.5): lambda: null(ece, few, targets),
        ("null of sce, 10,000 examples, 1,000 resamples", 1): lambda: null(sce, few, targets),
        ("null of ece, 1,000,000 examples, 1,000 resamples", 2): lambda: null(ece, probs, labels),
        ("smooth_ece, 1,000,000 examples", 0.5): lambda: smooth_ece(probs, labels),
    }
    for (name, limit), function in functions.items():
        (seconds,) = cpu_seconds(function, repeats=3 if full else 1, seconds=2)
        yield Row(name, seconds, "s", at_most=limit)
    if full:
        (large,) = cpu_seconds(lambda: bootstrap(ece, probs, labels), repeats=1)
        yield Row("bootstrap of ece, 1,000,000 examples, 200 resamples", large, "s")
