"""Training steps of plain networks on one thread: images per second, and the share of the machine's peak.

The peak is that of a product of two 1,024 x 1,024 matrices of float32 in the same run; operations are those
of convolutions and matrix products, forward and twice as many backward. Channels-last input and weights (the
networks' activations always are), `inference_mode` and, with `--full`, `torch.compile` are tried beside the
same network without them.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.timing import Row, cpu_seconds
from calmix.models import small_resnet, wide_resnet

SIDE = 1024
NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "small_resnet, width 16": (lambda: small_resnet(width=16), 128),
    "small_resnet, width 32": (lambda: small_resnet(width=32), 128),
    "WRN-16-4": (lambda: wide_resnet(16, 4), 32),
}


def rows(full: bool = False) -> Iterator[Row]:
    torch.manual_seed(0)
    a, b = torch.randn(2, SIDE, SIDE)
    (product,) = cpu_seconds(lambda: a @ b, repeats=5)
    peak = 2 * SIDE**3 / product
    yield Row("product of two 1,024 x 1,024 matrices", peak / 1e9, "GFLOP/s")
    for name, (make, batch) in NETWORKS.items():
        network = make()
        x, labels = torch.rand(batch, 3, 32, 32), torch.randint(10, (batch,))
        last = make().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x_last = x.contiguous(memory_format=torch.channels_last)
        plain, channels_last = cpu_seconds(
            step(network, x, labels), step(last, x_last, labels), repeats=5 if full else 3
        )
        share = operations(network, x) / plain / peak
        yield Row(f"{name}, training, batches of {batch}", batch / plain, "images/s")
        yield Row("  share of the peak", share, "")
        yield Row("  channels-last relative to it", plain / channels_last, "x images/s")
        yield from inference(network.eval(), x, repeats=5 if full else 3)
        if full:
            yield compiled(make(), x, labels, plain)


def step(network: nn.Module, x: Tensor, labels: Tensor) -> Callable[[], None]:
    """Forward and backward pass."""

    def run() -> None:
        network.zero_grad()
        F.cross_entropy(network(x), labels).backward()

    return run


def operations(network: nn.Module, x: Tensor) -> float:
    """Floating-point operations of a training step."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(x)
    return 3.0 * float(counter.get_total_flops())


def inference(network: nn.Module, x: Tensor, *, repeats: int) -> Iterator[Row]:
    def without_gradients() -> None:
        with torch.no_grad():
            network(x)

    def in_inference_mode() -> None:
        with torch.inference_mode():
            network(x)

    usual, mode = cpu_seconds(without_gradients, in_inference_mode, repeats=repeats)
    yield Row("  evaluation in inference_mode", len(x) / mode, "images/s")
    yield Row("  no_grad relative to it", usual / mode, "x time")


def compiled(network: nn.Module, x: Tensor, labels: Tensor, plain: float) -> Row:
    """Compiling, which takes a minute, is not measured."""
    faster = torch.compile(network)
    (seconds,) = cpu_seconds(step(faster, x, labels), repeats=5)  # type: ignore[arg-type]
    return Row("  torch.compile relative to it", plain / seconds, "x images/s")
