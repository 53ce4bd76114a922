"""Ensembles relative to plain networks on as many images; with `--full` at several batch sizes, and the two
ways to compute a layer."""

from collections.abc import Callable, Iterator
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.timing import Row, cpu_seconds
from calmix.ensembles import BatchEnsemble, MCDropout, batch, layers, parameter_groups
from calmix.ensembles.layers import RankOne, forming_pays
from calmix.models import small_resnet, wide_resnet

MEMBERS = 4
SHAPES = [
    # (in, out, size, kernel, stride)
    (12, 16, 16, 3, 1),
    (16, 16, 16, 3, 1),
    (16, 32, 16, 3, 2),
    (16, 32, 16, 1, 2),
    (32, 32, 8, 3, 1),
    (32, 64, 8, 3, 2),
    (64, 64, 4, 3, 1),
    (3, 16, 32, 3, 1),
    (16, 64, 32, 3, 1),
    (64, 128, 32, 1, 2),
    (128, 128, 16, 3, 1),
    (256, 256, 8, 3, 1),
    (512, 512, 4, 3, 1),
]


def stepper(model: nn.Module, logits: Callable[[], Tensor], labels: Tensor) -> Callable[[], None]:
    """A training step: forward, backward and update."""
    optimiser = torch.optim.SGD(parameter_groups(model), lr=1e-3, momentum=0.9, nesterov=True, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(logits(), labels).backward()
        optimiser.step()

    return step


def naive(function: Callable[[], object]) -> Callable[[], object]:
    """The same function with activations scaled by broadcast multiplication, all members at once."""

    def run() -> object:
        with (
            patch.object(layers, "forming_pays", lambda x, weight, members: False),
            patch.object(batch, "may_unroll", lambda network: False),
        ):
            return function()

    return run


def seconds(*functions: Callable[[], object], calls: int) -> list[float]:
    """Best CPU time of `calls` consecutive calls."""
    return cpu_seconds(*[lambda f=f: [f() for _ in range(calls)] for f in functions], repeats=9, seconds=12)


def network(name: str, net: nn.Module, rows: int, calls: int) -> Iterator[Row]:
    """Training and inference of an ensemble relative to the plain network on as many images."""
    model = BatchEnsemble(net, MEMBERS)
    x, labels = torch.rand(MEMBERS, rows, 3, 32, 32), torch.randint(10, (MEMBERS * rows,))
    joined = x.flatten(0, 1)
    ours = stepper(model, lambda: model(x, per_member=True).flatten(0, 1), labels)
    plain = stepper(net, lambda: net(joined), labels)
    base, own, reference = seconds(plain, ours, naive(ours), calls=calls)
    title = f"{name}, {MEMBERS} members x {rows} images"
    yield Row(f"{title}: training step", own / base, "x plain", at_most=1.25)
    yield Row(f"{title}: training step, naive", reference / own, "x ours", at_least=1)
    model.eval()
    net.eval()
    with torch.no_grad():
        pooled: Callable[[], object] = lambda: model(x, per_member=True).softmax(-1).mean(0)  # noqa: E731
        base, own, reference = seconds(
            lambda: net(joined).softmax(-1), pooled, naive(pooled), calls=2 * calls
        )
    yield Row(f"{title}: pooled inference", own / base, "x plain", at_most=1.15)
    yield Row(f"{title}: pooled inference, naive", reference / own, "x ours", at_least=1)


def samples(name: str, net: nn.Module, rows: int) -> Iterator[Row]:
    model = MCDropout(net, samples=20).eval()
    net.eval()
    for part in net.modules():
        if isinstance(part, nn.Dropout):
            part.train()
    x = torch.rand(rows, 3, 32, 32)
    with torch.no_grad():
        base, own = cpu_seconds(lambda: [net(x) for _ in range(20)], lambda: model(x), repeats=9)
    yield Row(f"{name}, 20 samples of {rows} images", own / base, "x 20 forwards", at_most=1.05)


def layer(inputs: int, outputs: int, size: int, kernel: int, stride: int, rows: int = 32) -> Row:
    """Forming weights relative to scaling activations, forward and backward: `forming_pays` must be right."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    one = RankOne(conv, torch.randn(MEMBERS, outputs), torch.randn(MEMBERS, inputs))
    x = torch.randn(MEMBERS * rows, inputs, size, size).contiguous(memory_format=torch.channels_last)
    x.requires_grad_()
    grad = torch.randn_like(one(x).detach())

    def run(form: bool) -> None:
        with patch.object(layers, "forming_pays", lambda x, weight, members: form):
            torch.autograd.grad(one(x), [x, *one.parameters()], grad)

    formed, scaled = seconds(lambda: run(True), lambda: run(False), calls=max(1, 2**24 // x.numel()))
    name = f"conv {inputs:3} -> {outputs:3}, {size} x {size}, kernel {kernel}, stride {stride}: form"
    if forming_pays(x, conv.weight, MEMBERS):
        return Row(name, formed / scaled, "x scale", at_most=1.1)
    return Row(name, formed / scaled, "x scale", at_least=0.9)


def rows(full: bool = False) -> Iterator[Row]:
    torch.manual_seed(0)
    if not full:
        yield from network("small_resnet", small_resnet(), 64, 1)
        yield from samples("small_resnet", small_resnet(dropout=0.1), 32)
        return
    # The paper's batch, half of it, and a quarter of it, at which the limits are exceeded.
    yield from network("small_resnet", small_resnet(), 128, 4)
    yield from network("small_resnet", small_resnet(), 64, 4)
    yield from network("small_resnet", small_resnet(), 32, 8)
    yield from network("WRN-16-4", wide_resnet(16, 4), 32, 1)
    yield from samples("small_resnet", small_resnet(dropout=0.1), 32)
    yield from samples("small_resnet", small_resnet(dropout=0.1), 128)
    x, labels = torch.rand(128, 3, 32, 32), torch.randint(10, (128,))
    small, wide = small_resnet(), wide_resnet(10, 1)
    small_seconds, wide_seconds = cpu_seconds(
        stepper(small, lambda: small(x), labels), stepper(wide, lambda: wide(x), labels), repeats=7
    )
    yield Row("small_resnet trains", 128 / small_seconds, "images/s", at_least=1200)
    yield Row("small_resnet trains", wide_seconds / small_seconds, "x WRN-10-1", at_least=4)
    for shape in SHAPES:
        yield layer(*shape)
