import torch
from torch import nn

from calmix import data, ensembles
from calmix.runs.standardise import Standardised, set_statistics, statistics


def test_statistics_of_vectors_and_channels():
    draw = torch.Generator().manual_seed(0)
    for shape in ((1500, 3), (40, 3, 5, 4)):
        x = 7 * torch.randn(shape, generator=draw) + 100
        mean, std = statistics(data.Part(x, torch.zeros(len(x), dtype=torch.int64)))
        rows = x.transpose(0, 1).flatten(1)
        torch.testing.assert_close(mean, rows.mean(1))
        torch.testing.assert_close(std, rows.std(1, correction=0), rtol=1e-4, atol=0)


def test_a_constant_feature_is_only_shifted():
    x = torch.tensor([[1e6, 2.0], [1e6, 4.0]])
    mean, std = statistics(data.Part(x, torch.tensor([0, 1])))
    assert (mean.tolist(), std.tolist()) == ([1e6, 3.0], [1.0, 1.0])


def test_members_of_every_ensemble_see_standardised_rows():
    x = torch.tensor([[10.0, -3.0], [14.0, -3.5], [12.0, 5.0]])
    part = data.Part(x, torch.tensor([0, 1, 0]))
    expected = (x - x.mean(0)) / x.std(0, correction=0)
    identity = nn.Linear(2, 2)
    with torch.no_grad():
        identity.weight.copy_(torch.eye(2))
        identity.bias.zero_()
    for model in (
        ensembles.DeepEnsemble([Standardised(identity, 2)]),
        ensembles.BatchEnsemble(Standardised(identity, 2), 2, init_std=0.0),
    ):
        set_statistics(model, part)
        for member in model(x):
            torch.testing.assert_close(member, expected)
        fresh = ensembles.DeepEnsemble([Standardised(nn.Linear(2, 2), 2)])
        if isinstance(model, ensembles.DeepEnsemble):
            fresh.load_state_dict(model.state_dict())
            torch.testing.assert_close(fresh(x), model(x))
