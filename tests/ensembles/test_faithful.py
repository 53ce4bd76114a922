"""Converting a trained network: what the example says about it."""

import warnings

import pytest
import torch
from torch import nn

from calmix.ensembles import BatchEnsemble


def clusters(rows, classes=8):
    generator = torch.Generator().manual_seed(1)
    centres = torch.randn(classes, 10, generator=generator) * 1.5
    labels = torch.arange(rows) % classes
    return centres[labels] + torch.randn(rows, 10, generator=generator), labels


def trained():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8))
    x, y = clusters(400)
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    assert (net(x).argmax(1) == y).float().mean() > 0.9
    return net, x


def converted(net, x, **options):
    return BatchEnsemble(net, example=x, generator=torch.Generator().manual_seed(3), **options)


def test_a_trained_network_that_moves_far_causes_a_warning():
    net, x = trained()
    with pytest.warns(UserWarning, match=r"agree with the original Sequential on \d+% .*init_std=0.1"):
        converted(net, x)
    with pytest.warns(UserWarning, match="below 90%"):
        converted(net, x, sign_probability=0.5)


def test_a_small_init_std_keeps_what_was_learned():
    net, x = trained()
    model = converted(net, x, init_std=0.1)  # any warning would be an error
    agreement = (model(x).argmax(2) == net(x).argmax(1)).float().mean()
    assert agreement > 0.9


def test_an_untrained_network_causes_none():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        converted(net, clusters(100)[0])
        BatchEnsemble(nn.Linear(10, 1), example=torch.rand(4, 10))
