"""Gradients in float32 against float64, for every network and the widths in use.

oneDNN's backward pass of a strided 1x1 convolution of channels-last inputs corrupts memory below 8 channels
on AVX2 (`ONEDNN_MAX_CPU_ISA=AVX2` selects it), and below 16 on AVX-512, there in larger images.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from calmix.ensembles import BatchEnsemble
from calmix.models import mlp, resnet50, small_resnet, wide_resnet

SMALL = [(2, 96), (4, 16), (4, 32), (4, 96), (8, 16), (8, 32), (16, 32), (32, 32)]
CASES = {
    **{f"small_resnet {w}, {size} px": (lambda w=w: small_resnet(5, w), 4, size) for w, size in SMALL},
    "WRN-10-1": (lambda: wide_resnet(10, 1, 5), 4, 32),
    "WRN-16-4": (lambda: wide_resnet(16, 4, 5), 2, 16),
    "resnet50": (lambda: resnet50(5), 4, 64),
    "mlp": (lambda: mlp(3 * 8 * 8, 100, 5, in_channels=3), 8, 8),
}


def compare_gradients(model, x):
    """A smooth activation, because the two precisions would disagree on the sign of values close to 0."""
    exact = copy.deepcopy(model).double()
    weight = torch.randn_like(model(x))
    got = torch.autograd.grad(model(x), list(model.parameters()), weight)
    want = torch.autograd.grad(exact(x.double()), list(exact.parameters()), weight.double())
    for name, a, b in zip(dict(model.named_parameters()), got, want, strict=True):
        error = (a - b).norm() / b.norm()
        assert error < 5e-4, f"{name}: relative error {error:.1e}"


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_of_every_parameter_equal_float64(name, layout, monkeypatch):
    monkeypatch.setattr(F, "relu", F.silu)
    make, rows, size = CASES[name]
    torch.manual_seed(0)
    compare_gradients(make(), torch.rand(rows, 3, size, size).contiguous(memory_format=layout))


@pytest.mark.parametrize("size", [16, 32, 96])
def test_gradients_of_a_narrow_ensemble_and_its_members_equal_float64(size, monkeypatch):
    monkeypatch.setattr(F, "relu", F.silu)
    torch.manual_seed(0)
    model, x = BatchEnsemble(small_resnet(5, 4), members=2), torch.rand(4, 3, size, size)
    compare_gradients(model, x)
    compare_gradients(model.member(1), x)


@pytest.mark.parametrize("name", CASES)
def test_no_strided_1x1_convolution_has_few_inputs(name):
    with torch.device("meta"):
        plain = CASES[name][0]()
        model = BatchEnsemble(plain, members=2)
    for network in (plain, model, model.member(0)):
        for part in network.modules():
            if isinstance(part, nn.Conv2d) and part.kernel_size == (1, 1) and part.stride != (1, 1):
                assert part.in_channels >= 16
