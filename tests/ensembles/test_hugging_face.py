"""Models of Hugging Face, built from configuration without weights: converted, trained and sampled."""

import pytest
import torch
from torch import nn

from calmix.ensembles import BatchEnsemble, DeepEnsemble, MCDropout, parameter_groups
from calmix.ensembles.layers import RankOne
from calmix.errors import InputError

transformers = pytest.importorskip("transformers")

TEXT = {"vocab_size": 40, "num_labels": 3, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
IMAGE = {"image_size": 16, "num_labels": 3}


def bert(**options):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    config = transformers.BertConfig(**TEXT, **sizes, max_position_embeddings=12, **options)
    return transformers.BertForSequenceClassification(config)


def distilbert(**options):
    config = transformers.DistilBertConfig(
        **TEXT, dim=16, n_layers=1, n_heads=2, hidden_dim=24, max_position_embeddings=12, **options
    )
    return transformers.DistilBertForSequenceClassification(config)


def gpt2(**options):
    config = transformers.GPT2Config(**TEXT, n_embd=16, n_layer=1, n_head=2, n_positions=12, **options)
    return transformers.GPT2ForSequenceClassification(config)


def vit(**options):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(**IMAGE, **sizes, patch_size=8, **options)
    )


def swin(**options):
    config = transformers.SwinConfig(
        **IMAGE, patch_size=2, embed_dim=8, depths=[2, 1], num_heads=[2, 2], window_size=4, **options
    )
    return transformers.SwinForImageClassification(config)


def convnext(**options):
    config = transformers.ConvNextConfig(
        num_labels=3, patch_size=2, hidden_sizes=[8, 12], depths=[1, 1], num_stages=2, **options
    )
    return transformers.ConvNextForImageClassification(config)


FAMILIES = {
    "bert": (bert, (nn.Embedding,)),
    "distilbert": (distilbert, (nn.Embedding,)),
    "gpt2": (gpt2, (nn.Embedding,)),
    "vit": (vit, ("cls_token", "position_embeddings")),
    "swin": (swin, ("relative_position_bias",)),
    "convnext": (convnext, ("layer_scale_parameter",)),
}


def batch(name, rows=5):
    generator = torch.Generator().manual_seed(1)
    if name in ("vit", "swin", "convnext"):
        return {"pixel_values": torch.rand(rows, 3, 16, 16, generator=generator)}
    ids = torch.randint(3, 40, (rows, 7), generator=generator)
    mask = (torch.arange(7) < torch.arange(rows)[:, None] % 4 + 4).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def converted(name, **options):
    make, share = FAMILIES[name]
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(2)
    return BatchEnsemble(make(**options), 3, share=share, output="logits", generator=generator)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_error_names_the_share_that_is_needed(name):
    make, share = FAMILIES[name]
    with pytest.raises(InputError) as error:
        BatchEnsemble(make(), output="logits")
    line = next(line for line in str(error.value).splitlines() if line.strip().startswith("share="))
    assert eval(line.strip().removeprefix("share="), {"nn": nn}) == share


@pytest.mark.parametrize("name", FAMILIES)
def test_members_are_those_of_the_ensemble_and_differ(name):
    model, inputs = converted(name).eval(), batch(name)
    logits = model(**inputs).detach()
    assert logits.shape == (3, 5, 3)
    for k in range(3):
        alone = model.member(k)
        assert type(alone) is type(FAMILIES[name][0]())
        torch.testing.assert_close(alone(**inputs).logits, logits[k], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(logits[0], logits[1], atol=1e-4)
    with torch.no_grad():
        many = batch(name, 33)
        expected = torch.stack([model.member(k)(**many).logits for k in range(3)])
        torch.testing.assert_close(model(**many), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_example_accepts_the_conversion(name):
    make, share = FAMILIES[name]
    torch.manual_seed(0)
    BatchEnsemble(make(), 2, share=share, output="logits", example=batch(name))


@pytest.mark.parametrize("name", FAMILIES)
def test_training_reaches_every_factor_and_lowers_the_loss(name):
    model, inputs = converted(name).train(), batch(name, 6)
    labels = torch.arange(6) % 3
    optimiser = torch.optim.AdamW(parameter_groups(model, weight_decay=1e-4), lr=3e-3)
    losses = []
    for step in range(12):
        logits = model(**inputs)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.repeat(3))
        optimiser.zero_grad()
        loss.backward()
        if step == 0:
            layers = [part for part in model.modules() if isinstance(part, RankOne)]
            assert layers
            assert all(part.r.grad.abs().sum() > 0 for part in layers)
            assert all(part.s.grad.abs().sum() > 0 for part in layers)
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-3:]) / 3 < losses[0] - 0.05


@pytest.mark.parametrize("name", FAMILIES)
def test_inputs_of_each_member(name):
    model, inputs = converted(name).eval(), batch(name, 6)
    own = {key: value.reshape(3, 2, *value.shape[1:]) for key, value in inputs.items()}
    logits = model(**own, per_member=True)
    everything = model(**inputs).reshape(3, 3, 2, 3)
    for k in range(3):
        torch.testing.assert_close(logits[k], everything[k, k], rtol=1e-4, atol=1e-5)


ATTENTION_ONLY = {
    "bert": (bert, {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.5}),
    "distilbert": (distilbert, {"dropout": 0.0, "seq_classif_dropout": 0.0, "attention_dropout": 0.5}),
    "gpt2": (gpt2, {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.5}),
    "vit": (vit, {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.5}),
    "swin": (swin, {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.5, "drop_path_rate": 0.0}),
}


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ATTENTION_ONLY)
def test_attention_dropout_is_sampled(name, implementation):
    torch.manual_seed(0)
    make, options = ATTENTION_ONLY[name]
    net = make(**options, attn_implementation=implementation).eval()
    inputs = batch(name)
    model = MCDropout(net, samples=3, output="logits", example=inputs)
    samples = model(**inputs)
    assert samples.shape == (3, 5, 3)
    assert not torch.allclose(samples[0], samples[1], atol=1e-6)
    assert torch.equal(samples, model(**inputs))
    alone = MCDropout(net, samples=1, output="logits").eval()
    torch.testing.assert_close(alone(**inputs)[0], samples[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(model.member(0)(**inputs).logits, net(**inputs).logits)
    model.train()
    first, second = model(**inputs), model(**inputs)
    assert first.shape == (1, 5, 3)
    assert not torch.equal(first, second)
    model.reseed(0)
    assert torch.equal(model(**inputs), first)
    first.sum().backward()


def test_attention_without_dropout_is_the_plain_network():
    torch.manual_seed(0)
    net = bert(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=1e-12).eval()
    model = MCDropout(net, samples=2, output="logits").eval()
    torch.testing.assert_close(model(**batch("bert"))[1], net(**batch("bert")).logits, rtol=1e-4, atol=1e-6)


def test_a_deep_ensemble_takes_names_and_records():
    torch.manual_seed(0)
    model = DeepEnsemble([distilbert(), distilbert()], output="logits").eval()
    inputs = batch("distilbert")
    logits = model(**inputs)
    assert logits.shape == (2, 5, 3)
    assert torch.equal(logits[1], model.member(1)(**inputs).logits)
    with pytest.raises(InputError, match='output="logits"'):
        DeepEnsemble([distilbert()])(**inputs)


def test_a_tie_between_common_parts_is_accepted():
    config = transformers.BertConfig(
        **TEXT, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24
    )
    net = transformers.BertForMaskedLM(config)
    model = BatchEnsemble(net, 2, share=(nn.Embedding, "predictions"), output="logits").eval()
    assert model.network.get_input_embeddings().weight is model.network.get_output_embeddings().weight
    assert model(**batch("bert")).shape == (2, 5, 7, 40)
    with pytest.raises(InputError, match="shares its weight with"):
        BatchEnsemble(net, 2, share=(nn.Embedding, "cls.predictions.bias"), output="logits")
