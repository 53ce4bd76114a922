"""Values of seeded ensembles, fixed: a change here would change the results of runs made earlier."""

import torch
from torch import nn

from calmix.ensembles import BatchEnsemble, DeepEnsemble, MCDropout, key_dropout, keyed_dropout
from calmix.models import small_resnet


def test_factors_are_drawn_layer_by_layer_r_before_s():
    model = BatchEnsemble(small_resnet(width=4), 2, generator=torch.Generator().manual_seed(5))
    generator = torch.Generator().manual_seed(5)
    factors = {name: p for name, p in model.named_parameters() if name.endswith((".r", ".s"))}
    assert list(factors)[:2] == ["network.stem.r", "network.stem.s"]
    for name, values in factors.items():
        assert torch.equal(values, torch.empty_like(values).normal_(1, 0.5, generator=generator)), name


def test_the_first_factors():
    model = BatchEnsemble(nn.Linear(2, 3), 2, generator=torch.Generator().manual_seed(5)).network
    torch.testing.assert_close(
        model.r.detach(),
        torch.tensor([[0.7566, 0.6981, 0.7210], [1.3338, 0.9013, 1.9714]]),
        rtol=0,
        atol=1e-4,
    )
    torch.testing.assert_close(
        model.s.detach(), torch.tensor([[0.2991, 0.6187], [1.3156, 0.5504]]), rtol=0, atol=1e-4
    )


def test_a_member_by_hand():
    model = BatchEnsemble(nn.Linear(2, 1), 2)
    with torch.no_grad():
        model.network.layer.weight.copy_(torch.tensor([[2.0, 3.0]]))
        model.network.r.copy_(torch.tensor([[1.0], [10.0]]))
        model.network.s.copy_(torch.tensor([[1.0, 1.0], [0.5, -1.0]]))
        model.network.bias.copy_(torch.tensor([[0.0], [7.0]]))
    assert model(torch.tensor([[1.0, 1.0]])).tolist() == [[[5.0]], [[-13.0]]]


def pattern(masks):
    """Rows of masks as text, x for what is kept."""
    return ["".join("x" if value else "." for value in row) for row in masks.flatten(0, -2).tolist()]


def test_masks_of_samples_and_steps():
    model, x = MCDropout(nn.Dropout(0.5), 2), torch.ones(2, 6)
    assert pattern(model(x)) == [".xxxxx", "xxx..x"]
    assert pattern(model(x)) == ["...x.x", ".x..xx"]
    assert pattern(model.eval()(x)) == ["xxxxxx", "....xx", ".x...x", "..xxx."]


def test_masks_of_keys():
    model = key_dropout(DeepEnsemble([nn.Sequential(nn.Dropout(0.5))]))
    with keyed_dropout(model, [(1, "a"), (1, "b")]):
        assert pattern(model(torch.ones(4, 4))) == ["xxxx", "xx.x", ".x..", "..xx"]
