import pytest
import torch
import torch.nn.functional as F
from torch import nn

from calmix.errors import InputError
from calmix.models import wide_resnet


def order_of_calls(block, x):
    calls = []
    for name, part in block.named_children():
        part.register_forward_hook(lambda *_, name=name: calls.append(name))
    block(x)
    return calls


def test_dropout_stands_between_the_first_convolution_and_the_second_norm():
    block = wide_resnet(10, 2, dropout=0.5).blocks[0]
    calls = [name for name in order_of_calls(block, torch.rand(2, 16, 4, 4)) if name != "drop_filters"]
    assert calls == ["norm1", "conv1", "drop", "norm2", "conv2", "shortcut"]
    assert isinstance(block.drop, nn.Dropout)


def test_filterwise_dropout_stands_before_every_convolution_of_a_block():
    block = wide_resnet(10, 2, dropout=0.5, filterwise=True).blocks[0]
    calls = [name for name in order_of_calls(block, torch.rand(2, 16, 4, 4)) if name != "drop"]
    drop = "drop_filters"
    assert calls == ["norm1", drop, "conv1", "norm2", drop, "conv2", drop, "shortcut"]
    assert isinstance(block.drop_filters, nn.Dropout2d)
    assert isinstance(block.drop, nn.Identity)


def test_a_block_by_hand():
    torch.manual_seed(0)
    net = wide_resnet(10, 1).eval()
    for block, x in ((net.blocks[0], torch.rand(2, 16, 8, 8)), (net.blocks[1], torch.rand(2, 16, 8, 8))):
        stride = 2 if block is net.blocks[1] else 1
        y = F.conv2d(F.relu(x / (1 + 1e-5) ** 0.5), block.conv1.weight, stride=stride, padding=1)
        y = F.conv2d(F.relu(y / (1 + 1e-5) ** 0.5), block.conv2.weight, padding=1)
        shortcut = x if stride == 1 else F.conv2d(x, block.shortcut.weight, stride=2)
        torch.testing.assert_close(block(x), y + shortcut, rtol=1e-4, atol=1e-5)


def test_three_stages_halve_the_resolution_twice():
    net = wide_resnet(16, 2)
    shapes = []
    for block in net.blocks:
        block.register_forward_hook(lambda module, args, out: shapes.append(tuple(out.shape[1:])))
    net(torch.rand(1, 3, 32, 32).expand(2, -1, -1, -1))
    assert shapes == [(32, 32, 32)] * 2 + [(64, 16, 16)] * 2 + [(128, 8, 8)] * 2


@pytest.mark.parametrize("depth", [4, 12, 27])
def test_depths_that_do_not_exist(depth):
    with pytest.raises(InputError, match=f"depth must be 6n \\+ 4 .*got {depth}"):
        wide_resnet(depth, 1)
