import torch
from torch import nn

from calmix.ensembles import BatchEnsemble, DeepEnsemble, MCDropout, parameter_groups
from calmix.ensembles.layers import RankOne
from calmix.models import small_resnet


def names(model, group):
    known = {p: name for name, p in model.named_parameters()}
    return {known[p] for p in group["params"]}


def test_every_parameter_once_and_no_decay_on_what_a_member_owns():
    for member_norm in (False, True):
        model = BatchEnsemble(small_resnet(), member_norm=member_norm)
        decayed, free = parameter_groups(model, weight_decay=0.3)
        assert (decayed["weight_decay"], free["weight_decay"]) == (0.3, 0.0)
        every = [*decayed["params"], *free["params"]]
        assert len(every) == len(set(every))
        assert set(every) == set(model.parameters())
        layers = sum(isinstance(part, RankOne) for part in model.modules())
        norms = sum(isinstance(part, nn.BatchNorm2d) for part in model.modules())
        assert len(free["params"]) == 2 * layers + (2 * norms if member_norm else 0)
        assert "network.head.bias" in names(model, decayed)
        assert ("network.norm.weight" in names(model, decayed)) is not member_norm


def test_names_do_not_matter():
    class Confusing(nn.Module):
        def __init__(self):
            super().__init__()
            self.r = nn.Linear(2, 2)
            self.s = nn.Linear(2, 2)
            self.norms = nn.BatchNorm1d(2)

    decayed, free = parameter_groups(Confusing())
    assert (len(decayed["params"]), len(free["params"])) == (6, 0)


def test_other_ensembles_and_a_shared_layer():
    shared = nn.Linear(2, 2)
    net = nn.Sequential(shared, nn.Dropout(), shared)
    for model in (net, DeepEnsemble([net]), MCDropout(net)):
        decayed, free = parameter_groups(model)
        assert (len(decayed["params"]), len(free["params"])) == (2, 0)


def test_an_optimiser_decays_as_told():
    model = BatchEnsemble(nn.Linear(2, 3), members=2)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    torch.optim.SGD(parameter_groups(model, weight_decay=0.5), lr=0.1).step()
    for name, p in model.named_parameters():
        factor = 1 if name in ("network.r", "network.s") else 0.95
        torch.testing.assert_close(p.detach(), factor * before[name])
