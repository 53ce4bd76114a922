import pytest
import torch
from torch import nn

from calmix.ensembles import BatchEnsemble, parameter_groups
from calmix.ensembles.layers import RankOne
from calmix.errors import InputError
from tests.ensembles.networks import ConvNeXt, TransformerClassifier


def rank_one(model):
    return [
        name.removeprefix("network.") for name, part in model.named_modules() if isinstance(part, RankOne)
    ]


def net():
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3)))


@pytest.mark.parametrize(
    ("share", "converted"),
    [
        ((), ["0", "2.0", "2.1"]),
        (("0",), ["2.0", "2.1"]),
        (("2.*",), ["0"]),
        (("2",), ["0"]),
        (("*.1",), ["0", "2.0"]),
        (("2.1.weight", "2.1.bias"), ["0", "2.0"]),
        (nn.Linear, []),
        (("weight",), ["0", "2.0", "2.1"]),
        (("missing", nn.Embedding), ["0", "2.0", "2.1"]),
    ],
)
def test_what_is_common(share, converted):
    assert rank_one(BatchEnsemble(net(), share=share)) == converted


def test_a_common_layer_is_the_same_for_all_members():
    torch.manual_seed(0)
    model = BatchEnsemble(nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 3)), 2, share=("1",), init_std=0)
    x = torch.rand(5, 2)
    torch.testing.assert_close(model(x)[0], model(x)[1])
    assert model.network[1].weight.shape == (3, 4)
    assert torch.equal(model.member(1)[1].weight, model.network[1].weight)
    assert model.describe().startswith("BatchEnsemble of 2 x Sequential: 27 parameters and 16 more")


def test_common_parts_decay_like_plain_parameters():
    model = BatchEnsemble(TransformerClassifier(), share=(nn.Embedding, nn.MultiheadAttention))
    decayed, free = parameter_groups(model)
    factors = {p for part in model.modules() if isinstance(part, RankOne) for p in (part.r, part.s)}
    assert set(free["params"]) == factors
    assert model.network.embed.weight in set(decayed["params"])


def test_shared_draws_do_not_move_the_others():
    """Layers draw their factors in the order of the network, whatever stands between them."""
    plain = BatchEnsemble(
        nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), generator=torch.Generator().manual_seed(0)
    )
    between = nn.Sequential(nn.Linear(2, 2), nn.Embedding(2, 2), nn.Linear(2, 2))
    shared = BatchEnsemble(between, share=(nn.Embedding,), generator=torch.Generator().manual_seed(0))
    assert torch.equal(plain.network[1].s, shared.network[2].s)


def test_subclassed_norms_are_norms():
    model = BatchEnsemble(ConvNeXt(), share=("*.gamma",))
    assert type(model.network.stem[1]).__name__ == "LayerNorm2d"

    class Norm(nn.BatchNorm1d):
        pass

    copies = BatchEnsemble(nn.Sequential(nn.Linear(2, 3), Norm(3)), 2, member_norm=True).network[1]
    assert [type(part) for part in copies.norms] == [Norm, Norm]


@pytest.mark.parametrize("entry", [3, nn.Linear(2, 2), dict])
def test_other_entries_are_refused(entry):
    with pytest.raises(InputError, match="share has the entry"):
        BatchEnsemble(net(), share=(entry,))


def test_the_suggested_line_keeps_no_layer_common():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x * self.weight

    blocks = nn.ModuleDict(
        {"a": nn.Sequential(nn.Linear(2, 2), Scale()), "fc": Scale(), "b": nn.Sequential()}
    )
    blocks["b"].add_module("fc", nn.Linear(2, 2))
    with pytest.raises(InputError) as error:
        BatchEnsemble(blocks)
    line = next(line for line in str(error.value).splitlines() if "share=" in line)
    share = eval(line.strip().removeprefix("share="))
    assert rank_one(BatchEnsemble(blocks, share=share)) == ["a.0", "b.fc"]


def test_the_type_of_a_weight_may_be_read_but_not_the_weight():
    layer = BatchEnsemble(nn.Conv2d(3, 4, 2, stride=2)).network
    assert (layer.weight.dtype, layer.weight.device.type) == (torch.float32, "cpu")
    assert layer.weight.shape == layer.weight.size() == (4, 3, 2, 2)
    assert (layer.in_channels, layer.stride) == (3, (2, 2))
    with pytest.raises(AttributeError, match="weight"):
        torch.nn.functional.conv2d(torch.rand(1, 3, 4, 4), layer.weight)
    with pytest.raises(AttributeError, match=r"no 'data'.*share="):
        _ = layer.weight.data
