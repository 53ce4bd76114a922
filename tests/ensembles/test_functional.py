import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from calmix.ensembles import DeepEnsemble, MCDropout, key_dropout, keyed_dropout
from calmix.ensembles.functional import SampledFunctions, attention, is_attention
from calmix.ensembles.masks import DRAWS
from tests.ensembles.networks import LSTMClassifier, TransformerClassifier, ViT, images, token_ids


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class Functional(nn.Module):
    def __init__(self, function=F.dropout, p=0.4):
        super().__init__()
        self.fc, self.function, self.p = nn.Linear(3, 4), function, p

    def forward(self, x):
        return self.function(self.fc(x), self.p, self.training)


def draw(function, *args, always=True, keys=((0, "key"),), **options):
    """Call a function with masks from keys."""
    DRAWS.keys, DRAWS.place = list(keys), 0
    try:
        with SampledFunctions(always=always):
            return function(*args, **options)
    finally:
        DRAWS.keys = []


@pytest.mark.parametrize("function", [F.dropout, torch.dropout], ids=["F.dropout", "torch.dropout"])
def test_functional_dropout_is_the_layer(function):
    layer = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.4))
    net = Functional(function)
    net.fc.load_state_dict(layer[0].state_dict())
    x = torch.rand(5, 3)
    got, expected = MCDropout(net, 4, example=x), MCDropout(layer, 4)
    assert torch.equal(got(x), expected(x))
    assert torch.equal(got.eval()(x), expected.eval()(x))


@pytest.mark.parametrize(
    ("function", "layer", "axes"),
    [(F.dropout1d, nn.Dropout1d, 1), (F.dropout2d, nn.Dropout2d, 2), (F.dropout3d, nn.Dropout3d, 3)],
)
def test_whole_channels(function, layer, axes):
    x = torch.ones(3, 8, *[2] * axes)
    assert torch.equal(draw(function, x, 0.5, False), draw(MCDropout(layer(0.5)).network, x))


def test_the_flag_counts_unless_always():
    x = torch.ones(4, 5)
    assert draw(F.dropout, x, 0.5, False, always=False) is x
    assert not torch.equal(draw(F.dropout, x, 0.5, True, always=False), x)
    assert draw(F.dropout, x, 0.0, True) is x
    y = x.clone()
    assert draw(F.dropout, y, 0.5, True, inplace=True) is y
    assert torch.equal(y, draw(F.dropout, x, 0.5, True))


@pytest.mark.parametrize("masked", ["none", "bool", "float", "causal", "gqa", "scale"])
def test_attention_is_the_fused_function_without_dropout(masked, monkeypatch):
    q, k, v = torch.rand(3, 2, 4, 5, 6, dtype=torch.float64)
    options = {
        "none": {},
        "bool": {"attn_mask": torch.rand(2, 1, 5, 5) > 0.4},
        "float": {"attn_mask": torch.randn(2, 4, 5, 5, dtype=torch.float64)},
        "causal": {"is_causal": True},
        "gqa": {"enable_gqa": True},
        "scale": {"scale": 0.3},
    }[masked]
    if masked == "gqa":
        k, v = k[:, :2], v[:, :2]
    if masked == "bool":
        options["attn_mask"][0, 0, 3] = False  # a query that attends to nothing
    expected = F.scaled_dot_product_attention(q, k, v, **options)
    monkeypatch.setattr("calmix.ensembles.functional.drop", lambda weights, p: weights)
    torch.testing.assert_close(attention(q, k, v, dropout_p=0.5, **options), expected)


def test_attention_weights_are_dropped_by_hand():
    q, k, v = torch.rand(3, 2, 1, 3, 4)
    got = draw(F.scaled_dot_product_attention, q, k, v, dropout_p=0.25)
    weights = (q @ k.mT / math.sqrt(4)).softmax(-1)
    assert torch.equal(got, draw(F.dropout, weights, 0.25) @ v)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_multi_head_attention_is_torchs_own(need_weights, batch_first, monkeypatch):
    layer = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=batch_first).eval()
    x = torch.rand(4, 4, 8)
    plain = layer(x, x, x, need_weights=need_weights)[0]
    dropped = draw(layer, x, x, x, need_weights=need_weights)[0]
    assert not torch.allclose(dropped, plain, atol=1e-4)
    assert torch.equal(dropped, draw(layer, x, x, x, need_weights=need_weights)[0])
    other = draw(layer, x, x, x, need_weights=need_weights, keys=[(1, "key")])[0]
    assert not torch.equal(dropped, other)
    layer.dropout = 0.0
    torch.testing.assert_close(draw(layer, x, x, x, need_weights=need_weights)[0], plain)


def test_the_masks_of_two_implementations_agree():
    layer = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True).eval()
    x = torch.rand(4, 5, 8)
    fused = draw(layer, x, x, x, need_weights=False)[0]
    torch.testing.assert_close(fused, draw(layer, x, x, x, need_weights=True)[0])


NETWORKS = {
    "transformer": (lambda: TransformerClassifier(dropout=0.3), token_ids),
    "vit": (lambda: ViT(dropout=0.5), images),
    "lstm": (lambda: LSTMClassifier(dropout=0.5), token_ids),
    "lstm, sequence first": (lambda: LSTMClassifier(dropout=0.5, batch_first=False), token_ids),
    "gru, packed": (lambda: LSTMClassifier(nn.GRU, dropout=0.5, packed=True), token_ids),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_drop_inside_functions(name):
    make, data = NETWORKS[name]
    net, x = make().eval(), data(5)
    model = MCDropout(net, 4, example=x)
    samples = model(x)
    assert samples.shape == (4, 5, 3)
    for k in range(1, 4):
        assert not torch.allclose(samples[0], samples[k], atol=1e-6)
    assert torch.equal(model(x), samples)
    torch.testing.assert_close(MCDropout(net, 2).eval()(x), samples[:2], rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(model(x), samples, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(model.member(1)(x), net(x), rtol=1e-4, atol=1e-6)
    state = torch.get_rng_state()
    model.train()(x).sum().backward()
    assert torch.equal(torch.get_rng_state(), state), "a mask was drawn from the global generator"
    assert not torch.equal(model(x), model(x))


def test_the_mean_of_many_samples_is_near_the_plain_network():
    net, x = ViT(dropout=0.1).eval(), images(3)
    with torch.no_grad():
        samples = MCDropout(net, 200).eval()(x)
        torch.testing.assert_close(samples.mean(0), net(x), rtol=0, atol=0.05)


def test_attention_modules_are_known_by_name_and_dropout():
    net = ViT(dropout=0.5)
    assert is_attention(net.blocks[0].attn)
    assert not any(is_attention(part) for part in ViT(dropout=0.0).modules())
    assert not is_attention(nn.MultiheadAttention(4, 2, dropout=0.5))
    model = MCDropout(net).eval()
    assert [name for name, part in model.network.named_modules() if part.training] == [
        "blocks.0.attn",
        "blocks.1.attn",
    ]
    assert not any(part.training for part in model.member(0).modules())
    assert all(part.training for part in copy.deepcopy(model).train().modules())


def test_keys_reach_functions_in_other_ensembles():
    model, x = key_dropout(DeepEnsemble([ViT(dropout=0.5)])), images(4)
    keys = [(3, "a"), (3, "b")]
    with keyed_dropout(model, keys):
        both = model(x)
    with keyed_dropout(model, keys[1:]):
        second = model(x[2:])
    torch.testing.assert_close(both[:, 2:], second)
    model.eval()
    with keyed_dropout(model, keys):
        assert torch.equal(model(x), model(x))


def test_functional_dropout_compiles():
    x = torch.rand(5, 3)
    model = MCDropout(Functional(), 3, example=x).eval()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="eager")(x), model(x))
