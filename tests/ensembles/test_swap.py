import copy

import pytest
import torch
from torch import nn

from calmix.ensembles.swap import swap_modules


def relu_to_gelu(part):
    return nn.GELU() if isinstance(part, nn.ReLU) else None


class Stray(nn.Module):
    """Keeps a second reference to its layer where no walk over modules finds it."""

    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()
        self.list = [self.act]

    def forward(self, x):
        return self.list[0](x)


def test_nested_shared_and_root():
    shared = nn.ReLU()
    net = nn.Sequential(shared, nn.Sequential(nn.Linear(2, 2), shared), nn.ReLU())
    swapped = swap_modules(net, relu_to_gelu)
    assert swapped is net
    assert isinstance(net[0], nn.GELU)
    assert net[0] is net[1][1]
    assert isinstance(net[2], nn.GELU)
    assert net[2] is not net[0]
    assert isinstance(swap_modules(nn.ReLU(), relu_to_gelu), nn.GELU)
    assert net[0].training
    assert not swap_modules(nn.Sequential(nn.ReLU().eval()), relu_to_gelu)[0].training


def test_what_was_swapped_out_fails_when_it_is_called():
    net = swap_modules(copy.deepcopy(Stray()), relu_to_gelu)
    with pytest.raises(AttributeError):
        net(torch.zeros(1))
