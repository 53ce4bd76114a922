import copy
import pickle

import pytest
import torch
from torch import nn

from calmix.ensembles import DeepEnsemble
from calmix.errors import InputError


def made(members=3):
    torch.manual_seed(0)
    return DeepEnsemble([nn.Sequential(nn.Linear(2, 5), nn.BatchNorm1d(5)) for _ in range(members)])


def test_each_member_answers_for_itself():
    model, x = made().eval(), torch.rand(4, 2)
    own = torch.rand(3, 4, 2)
    assert model(x).shape == (3, 4, 5)
    for k in range(3):
        assert torch.equal(model(x)[k], model.member(k)(x))
        assert torch.equal(model(own, per_member=True)[k], model.member(k)(own[k]))
    assert torch.equal(model(x[None], per_member=True), model(x))


def descend(model, losses):
    sum(losses).backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    model.zero_grad()


def test_trained_together_or_alone_a_member_is_the_same_bit_for_bit():
    together, alone = made(), made().member(1)
    x, y = torch.rand(3, 8, 2), torch.randint(5, (3, 8))
    for _ in range(3):
        logits = together(x, per_member=True)
        descend(together, [nn.functional.cross_entropy(logits[k], y[k]) for k in range(3)])
        descend(alone, [nn.functional.cross_entropy(alone(x[1]), y[1])])
    for name, value in alone.state_dict().items():
        assert torch.equal(value, together.member(1).state_dict()[name]), name


def test_a_single_network_is_an_ensemble_of_one():
    net = nn.Linear(2, 3)
    x = torch.rand(4, 2)
    assert torch.equal(DeepEnsemble([net])(x)[0], net(x))


def test_copies_pickles_and_loads_strictly():
    model, x = made().eval(), torch.rand(4, 2)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), model(x))
    other = DeepEnsemble([nn.Sequential(nn.Linear(2, 5), nn.BatchNorm1d(5)) for _ in range(3)]).eval()
    assert not torch.equal(other(x), model(x))
    other.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(other(x), model(x))


def test_compiles():
    model, x = made().eval(), torch.rand(4, 2)
    torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), model(x))


def test_describe():
    assert made().describe() == "DeepEnsemble of 3 x Sequential: 75 parameters"


def test_bad_input_is_refused():
    net = nn.Linear(2, 3)
    with pytest.raises(InputError, match="empty"):
        DeepEnsemble([])
    with pytest.raises(InputError, match="share parameters"):
        DeepEnsemble([net, net])
    with pytest.raises(InputError, match=r"\(2, 4, 2\).*3 or 1"):
        made()(torch.rand(2, 4, 2), per_member=True)
    with pytest.raises(InputError, match="no member 3"):
        made().member(3)


def test_members_do_not_see_what_others_did_to_the_input():
    net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(2, 3))
    bias = torch.tensor([-1.0, 1.0])

    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = copy.deepcopy(net)

        def forward(self, x):
            return self.net(x.add_(bias))

    model, x = DeepEnsemble([Shifted(), Shifted()]), torch.rand(5, 2)
    out = model(x)
    assert torch.equal(out[0], out[1])
