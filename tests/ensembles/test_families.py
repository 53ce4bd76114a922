"""One network of each common family, converted to a BatchEnsemble and trained."""

import pytest
import torch
from torch import nn

from calmix.ensembles import BatchEnsemble, parameter_groups
from calmix.ensembles.layers import RankOne
from calmix.ensembles.norm import MemberNorm
from calmix.errors import InputError
from tests.ensembles.networks import (
    ConvNeXt,
    LSTMClassifier,
    PReLUNet,
    Segmenter,
    TransformerClassifier,
    ViT,
    images,
    token_ids,
)

FAMILIES = {
    "convnext": (ConvNeXt, ("gamma",), images),
    "vit": (ViT, ("cls_token", "pos_embed"), images),
    "transformer": (TransformerClassifier, (nn.Embedding, nn.MultiheadAttention), token_ids),
    "lstm": (LSTMClassifier, (nn.Embedding, nn.LSTM), token_ids),
    "lstm, sequence first": (
        lambda: LSTMClassifier(batch_first=False),
        (nn.Embedding, nn.LSTM),
        token_ids,
    ),
    "gru, packed": (lambda: LSTMClassifier(nn.GRU, packed=True), (nn.Embedding, nn.GRU), token_ids),
    "prelu": (PReLUNet, (), images),
}


def converted(name, **options):
    make, share, data = FAMILIES[name]
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(2)
    return BatchEnsemble(make(), 3, share=share, generator=generator, **options), data


@pytest.mark.parametrize("name", FAMILIES)
def test_the_error_names_the_share_that_is_needed(name):
    make, share, _ = FAMILIES[name]
    if not share:
        BatchEnsemble(make())
        return
    with pytest.raises(InputError) as error:
        BatchEnsemble(make())
    line = next(line for line in str(error.value).splitlines() if line.strip().startswith("share="))
    assert eval(line.strip().removeprefix("share="), {"nn": nn}) == share


@pytest.mark.parametrize("name", FAMILIES)
def test_members_are_those_of_the_ensemble_and_differ(name):
    model, data = converted(name, example=FAMILIES[name][2](4))
    model.eval()
    logits = model(data(5))
    assert logits.shape == (3, 5, 3)
    assert not torch.allclose(logits[0], logits[1], atol=1e-4)
    own = data(3, 5)
    for x, options in ((data(5).expand(3, *data(5).shape), {}), (own, {"per_member": True})):
        for k in range(3):
            got = model(x if options else x[0], **options)[k]
            torch.testing.assert_close(got, model.member(k)(x[k]), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        many = data(40)
        expected = torch.stack([model.member(k)(many) for k in range(3)])
        torch.testing.assert_close(model(many), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_training_reaches_every_factor_and_lowers_the_loss(name):
    model, data = converted(name)
    x, labels = data(6), torch.arange(6) % 3
    optimiser = torch.optim.AdamW(parameter_groups(model, weight_decay=1e-4), lr=1e-2)
    losses = []
    for step in range(10):
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), labels.repeat(3))
        optimiser.zero_grad()
        loss.backward()
        if step == 0:
            layers = [part for part in model.modules() if isinstance(part, RankOne)]
            assert layers
            assert all(part.r.grad.abs().sum() > 0 and part.s.grad.abs().sum() > 0 for part in layers)
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-3:]) / 3 < losses[0] - 0.05


def test_every_part_that_is_refused_is_named_at_once():
    with pytest.raises(InputError) as error:
        BatchEnsemble(ViT(), share=("cls_tokn",))
    text = str(error.value)
    assert "the module itself (ViT) owns the parameter 'cls_token' (and 1 more)" in text
    assert 'share=("cls_tokn", "cls_token", "pos_embed")' in text
    assert "'cls_tokn' in share matches nothing" in text


def test_common_parts_are_common():
    model, _ = converted("transformer")
    kinds = [type(part) for part in model.modules()]
    assert kinds.count(nn.MultiheadAttention) == 2
    assert kinds.count(RankOne) == 5
    layer = converted("transformer")[0].network.encoder.layers[0]
    assert isinstance(layer.linear1, RankOne)
    everything = BatchEnsemble(TransformerClassifier(), share=(nn.Embedding, nn.TransformerEncoder))
    assert sum(isinstance(part, RankOne) for part in everything.modules()) == 1


def test_padding_in_a_transformer():
    model, _ = converted("transformer")
    model.eval()
    ids = token_ids(5)
    with torch.no_grad():
        logits = model(ids, mask=ids == 0)
        for k in range(3):
            torch.testing.assert_close(model.member(k)(ids, ids == 0), logits[k], rtol=1e-4, atol=1e-5)


def test_sequence_first_transformers_are_refused():
    with pytest.raises(InputError, match=r"encoder.layers.0 .* batch_first=False.*batch_first=True"):
        BatchEnsemble(TransformerClassifier(batch_first=False), share=(nn.Embedding, nn.MultiheadAttention))


def test_each_member_has_its_own_prelu():
    model, _ = converted("prelu")
    copies = [part for part in model.modules() if isinstance(part, MemberNorm)]
    assert [len(part.norms) for part in copies] == [3, 3]
    exempt = parameter_groups(model)[1]["params"]
    assert all(any(p is own for own in exempt) for part in copies for p in part.parameters())
    shared = BatchEnsemble(PReLUNet(), share=(nn.PReLU,))
    assert sum(isinstance(part, nn.PReLU) for part in shared.modules()) == 2


def test_dense_outputs_keep_their_axes():
    torch.manual_seed(0)
    model = BatchEnsemble(Segmenter(), 3, example=images(2)).eval()
    logits = model(images(4))
    assert logits.shape == (3, 4, 3, 16, 16)
    torch.testing.assert_close(model.member(2)(images(4)), logits[2], rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        assert model(images(40)).shape == (3, 40, 3, 16, 16)
