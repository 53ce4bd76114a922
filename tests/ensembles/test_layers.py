"""Rank-one layers against a loop over members with weights that are spelled out entry by entry."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call

from calmix.ensembles import layers
from calmix.ensembles.layers import RankOne, forming_pays
from calmix.errors import InputError

MEMBERS, ROWS = 3, 2
CASES = {
    "linear": (lambda: nn.Linear(5, 4), (5,)),
    "linear on a sequence": (lambda: nn.Linear(5, 4), (3, 5)),
    "linear on an image": (lambda: nn.Linear(5, 4), (3, 2, 5)),
    "linear without bias": (lambda: nn.Linear(5, 4, bias=False), (5,)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1), (4, 7)),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), (4, 6, 7)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2, dilation=2), (2, 4, 4, 3)),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, groups=2), (4, 5, 5)),
    "depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4), (4, 5, 5)),
    "circular, padded alike": (
        lambda: nn.Conv2d(3, 4, (3, 2), padding="same", padding_mode="circular"),
        (3, 5, 5),
    ),
    "transposed1d": (lambda: nn.ConvTranspose1d(4, 6, 3), (4, 5)),
    "transposed2d": (
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        (4, 5, 4),
    ),
    "transposed3d": (lambda: nn.ConvTranspose3d(2, 3, 2), (2, 3, 3, 3)),
}


def channels(layer: nn.Module) -> tuple[int, int]:
    if isinstance(layer, nn.Linear):
        return layer.out_features, layer.in_features
    return layer.out_channels, layer.in_channels


def explicit_weights(layer: nn.Module, r: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    """One member's W o (r s^T), one pair of channels at a time."""
    groups = getattr(layer, "groups", 1)
    outputs, inputs = (count // groups for count in channels(layer))
    transposed = "Transpose" in type(layer).__name__
    rows = []
    for a in range(layer.weight.shape[0]):
        group = a // (inputs if transposed else outputs)
        row = []
        for b in range(layer.weight.shape[1]):
            out, inp = (group * outputs + b, a) if transposed else (a, group * inputs + b)
            row.append(layer.weight[a, b] * r[out] * s[inp])
        rows.append(torch.stack(row))
    return torch.stack(rows)


def made(name: str) -> tuple[RankOne, torch.Tensor]:
    torch.manual_seed(0)
    make, shape = CASES[name]
    plain = make().double()
    outputs, inputs = channels(plain)
    layer = RankOne(plain, torch.randn(MEMBERS, outputs).double(), torch.randn(MEMBERS, inputs).double())
    if layer.bias is not None:
        nn.init.normal_(layer.bias)
    return layer, torch.randn(MEMBERS * ROWS, *shape, dtype=torch.float64, requires_grad=True)


def reference(layer: RankOne, x: torch.Tensor) -> torch.Tensor:
    outputs = []
    for k in range(MEMBERS):
        values = {"weight": explicit_weights(layer.layer, layer.r[k], layer.s[k])}
        if layer.bias is not None:
            values["bias"] = layer.bias[k]
        outputs.append(functional_call(layer.layer, values, x[k * ROWS : (k + 1) * ROWS]))
    return torch.cat(outputs)


@pytest.mark.parametrize("form", [False, True], ids=["scale", "form"])
@pytest.mark.parametrize(
    ("name", "layout"),
    [(name, torch.contiguous_format) for name in CASES]
    + [(name, torch.channels_last) for name, (_, shape) in CASES.items() if len(shape) == 3],
)
def test_forward_and_every_gradient_equal_the_loop(name, layout, form, monkeypatch):
    monkeypatch.setattr(layers, "forming_pays", lambda x, weight, members: form)
    layer, x = made(name)
    x = x.detach().contiguous(memory_format=layout).requires_grad_()
    got, want = layer(x), reference(layer, x)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    weight = torch.randn_like(want)
    sources = [x, *layer.parameters()]
    for a, b in zip(
        torch.autograd.grad(got, sources, weight), torch.autograd.grad(want, sources, weight), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", [False, True], ids=["scale", "form"])
def test_gradients_of_gradients(form, monkeypatch):
    monkeypatch.setattr(layers, "forming_pays", lambda x, weight, members: form)
    layer, x = made("conv2d")
    first = torch.autograd.grad(layer(x).square().sum(), [x, layer.r], create_graph=True)
    want = torch.autograd.grad(reference(layer, x).square().sum(), [x, layer.r], create_graph=True)
    for got, expected in zip(
        torch.autograd.grad(first[0].sum() + first[1].sum(), [layer.s, layer.layer.weight]),
        torch.autograd.grad(want[0].sum() + want[1].sum(), [layer.s, layer.layer.weight]),
        strict=True,
    ):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("frozen", ["r", "s", "weight", "x"])
def test_what_is_frozen_gets_no_gradient_and_the_rest_keeps_its_own(frozen, monkeypatch):
    monkeypatch.setattr(layers, "forming_pays", lambda x, weight, members: False)
    layer, x = made("conv2d")
    parts = {"r": layer.r, "s": layer.s, "weight": layer.layer.weight, "x": x}
    parts.pop(frozen).requires_grad_(False)
    for got, want in zip(
        torch.autograd.grad(layer(x).square().sum(), list(parts.values())),
        torch.autograd.grad(reference(layer, x).square().sum(), list(parts.values())),
        strict=True,
    ):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch's own jvp
def test_transforms_of_functions_reach_through(monkeypatch):
    monkeypatch.setattr(layers, "forming_pays", lambda x, weight, members: False)
    layer, x = made("conv2d")
    x, direction = x.detach(), torch.randn_like(x)
    forward_mode = torch.func.jvp(layer, (x,), (direction,))[1]
    torch.testing.assert_close(forward_mode, layer(direction))  # without a bias it is linear
    stacked = torch.stack([x, 2 * x])
    torch.testing.assert_close(torch.func.vmap(layer)(stacked), torch.stack([layer(x), layer(2 * x)]))
    with torch.no_grad():
        twice = torch.func.vmap(lambda r: torch.func.functional_call(layer, {"r": r}, (x,)))
        factors = torch.stack([layer.r, 2 * layer.r])
        torch.testing.assert_close(twice(factors), torch.stack([layer(x), 2 * layer(x)]))


def test_shapes_alone_pass_on_the_meta_device(monkeypatch):
    monkeypatch.setattr(layers, "forming_pays", lambda x, weight, members: False)
    layer, x = made("conv2d")
    assert layer.to("meta")(x.to("meta")).shape == (MEMBERS * ROWS, 6, 3, 4)


@pytest.mark.parametrize("name", CASES)
def test_a_member_taken_out_is_the_plain_layer_with_explicit_weights(name):
    layer, x = made(name)
    for k in range(MEMBERS):
        plain = layer.member(k)
        assert type(plain) is type(layer.layer)
        torch.testing.assert_close(plain.weight, explicit_weights(layer.layer, layer.r[k], layer.s[k]))
        rows = x[k * ROWS : (k + 1) * ROWS]
        torch.testing.assert_close(plain(rows), layer(x)[k * ROWS : (k + 1) * ROWS], rtol=0, atol=1e-10)


@pytest.mark.parametrize("together", [0, 2**16], ids=["one at a time", "together"])
@pytest.mark.parametrize("name", CASES)
def test_unrolled_layers_are_those_of_the_members(name, together, monkeypatch):
    monkeypatch.setattr(layers, "FORM_TOGETHER", together)
    layer, x = made(name)
    want = reference(layer, x).detach()
    with torch.no_grad():
        got = [plain(rows) for plain, rows in zip(layer.unroll(), x.split(ROWS), strict=True)]
    torch.testing.assert_close(torch.cat(got), want, rtol=0, atol=1e-10)


def test_output_size_reaches_a_transposed_convolution():
    layer, x = made("transposed1d")
    layer.layer.stride = (2,)
    assert layer(x).shape[-1] == 11
    assert layer(x, [12]).shape[-1] == 12


def test_half_precision_activations_stay_so():
    layer, x = made("conv2d")
    layer, x = copy.deepcopy(layer).float(), x.detach().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), layer(x), rtol=0.05, atol=0.05)
    y.float().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


def test_weights_are_formed_only_above_the_line():
    weight = torch.empty(10, 100)
    line = 4 * 1000 + 65_536
    assert not forming_pays(torch.empty(3 * line), weight, 3)
    assert forming_pays(torch.empty(3 * line + 1), weight, 3)


def test_rows_that_members_cannot_share_are_refused():
    layer, x = made("linear")
    with pytest.raises(InputError, match="a Linear got 5 rows for 3 members"):
        layer(x[:5])


@pytest.mark.parametrize("name", ["linear", "conv2d", "transposed1d"])
def test_one_channel_is_not_taken_for_many(name):
    layer, x = made(name)
    axis = -1 if name == "linear" else 1
    with pytest.raises(InputError, match=f"for {x.shape[axis]} channels got 1"):
        layer(x.narrow(axis, 0, 1))


def test_gradients_come_in_batches_too(monkeypatch):
    monkeypatch.setattr(layers, "forming_pays", lambda x, weight, members: False)
    layer, x = made("conv2d")
    rows = torch.autograd.functional.jacobian(layer, x)
    torch.testing.assert_close(torch.autograd.functional.jacobian(layer, x, vectorize=True), rows)


def test_complex_weights_learn():
    plain = nn.Conv2d(2, 3, 3, bias=False, dtype=torch.complex128)
    layer = RankOne(plain, torch.ones(2, 3).to(plain.weight), torch.ones(2, 2).to(plain.weight))
    layer(torch.randn(2, 2, 4, 4, dtype=torch.complex128)).abs().sum().backward()
    assert layer.r.grad.abs().min() > 0
