"""The wrapper and its callback in the real Trainer, on tiny models from configuration."""

import pytest
import torch
from torch import nn

import calmix
from calmix.augment import cross_entropy
from calmix.errors import InputError

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
datasets = pytest.importorskip("datasets")
from calmix.integrations.transformers import MixedClassifier, MixerCallback  # noqa: E402

WORDS, CLASSES, MEMBERS, LENGTH = 20, 3, 2, 6


def bert(seed=0, dropout=0.0):
    torch.manual_seed(seed)
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=WORDS,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=LENGTH,
            num_labels=CLASSES,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=0.0,
        )
    )


def deep():
    return calmix.DeepEnsemble([bert(seed) for seed in range(MEMBERS)], output="logits")


def batch_ensemble():
    generator = torch.Generator().manual_seed(0)
    return calmix.BatchEnsemble(
        bert(), MEMBERS, init_std=0.1, share=(nn.Embedding,), output="logits", generator=generator
    )


def dropout_ensemble():
    return calmix.MCDropout(bert(dropout=0.2), samples=4, output="logits")


def texts(size, seed=0):
    """Rows of different lengths, padded with 0; the first word says the class, most of the time."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, WORDS, (size, LENGTH), generator=draw)
    lengths = torch.randint(2, LENGTH + 1, (size, 1), generator=draw)
    mask = (torch.arange(LENGTH) < lengths).long()
    labels = torch.where(
        torch.rand(size, generator=draw) < 0.8, ids[:, 0] % CLASSES, torch.arange(size) % CLASSES
    )
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": labels, "index": torch.arange(size)}


def dataset(size, seed=0):
    return datasets.Dataset.from_dict({name: column.tolist() for name, column in texts(size, seed).items()})


def arguments(folder, **options):
    defaults = {
        "output_dir": str(folder),
        "num_train_epochs": 2,
        "per_device_train_batch_size": 8,
        "per_device_eval_batch_size": 7,
        "learning_rate": 5e-3,
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "save_strategy": "no",
        "eval_strategy": "epoch",
        "logging_strategy": "no",
        "dataloader_pin_memory": False,
    }
    return transformers.TrainingArguments(**{**defaults, **options})


def trainer(folder, model, **options):
    return transformers.Trainer(
        model,
        arguments(folder, **options),
        train_dataset=dataset(32),
        eval_dataset=dataset(20, seed=1),
        callbacks=[MixerCallback()],
    )


@pytest.mark.parametrize("make", [deep, batch_ensemble, dropout_ensemble])
@pytest.mark.parametrize("mixer", [calmix.Mixup, calmix.CAMixup, calmix.RegMixup])
def test_training_loss_is_that_of_mixed_embeddings(make, mixer):
    members = 1 if make is dropout_ensemble else MEMBERS
    model = MixedClassifier(make(), mixer(CLASSES, members=members)).train()
    if mixer is calmix.CAMixup:
        model.mixer.active = torch.ones(members, CLASSES, dtype=torch.bool)
    rows = texts(5)
    del rows["index"]
    torch.manual_seed(3)
    out = model(**rows)
    out.loss.backward()
    count = 10 if mixer is calmix.RegMixup else 5
    assert out.logits.shape == (count, members, CLASSES)
    assert all(p.grad is not None for name, p in model.named_parameters() if "word_embeddings" in name)

    if make is dropout_ensemble:
        return  # its masks differ from call to call
    torch.manual_seed(3)
    plan = model.mixer.plan(rows["labels"].expand(MEMBERS if make is deep else 1, -1), per_member=True)
    networks = model.ensemble.networks if make is deep else [model.ensemble.network]
    embedded = torch.stack([n.get_input_embeddings()(rows["input_ids"]) for n in networks])
    batch = plan(embedded)
    own = rows["attention_mask"]
    masks = torch.maximum(own, own[plan.partner.expand(MEMBERS, -1)])
    if mixer is calmix.RegMixup:
        masks = torch.cat([own.expand_as(masks), masks], 1)
    logits = model.ensemble(inputs_embeds=batch.inputs, attention_mask=masks, per_member=True)
    torch.testing.assert_close(out.logits, logits.transpose(0, 1))
    losses = batch.loss(logits)
    torch.testing.assert_close(out.loss, losses.sum() if make is deep else losses.mean())


@pytest.mark.parametrize("make", [deep, batch_ensemble])
def test_without_mixing_it_is_the_ensemble(make):
    """Embedding outside of the network changes nothing, in training as in evaluation."""
    model = MixedClassifier(make(), calmix.CAMixup(CLASSES, members=MEMBERS))
    rows = texts(5)
    inputs = {name: rows[name] for name in ("input_ids", "attention_mask")}
    types = torch.ones_like(inputs["input_ids"])
    for mode in (True, False):
        model.train(mode)
        out = model(**inputs, token_type_ids=types, labels=rows["labels"])
        logits = model.ensemble(**inputs, token_type_ids=types)
        torch.testing.assert_close(out.logits, logits.transpose(0, 1))
        losses = cross_entropy(logits, rows["labels"]).mean(1)
        torch.testing.assert_close(out.loss, losses.sum() if make is deep else losses.mean())
    assert model(**inputs).loss is None


def test_images():
    config = transformers.ViTConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=8,
        patch_size=4,
        num_labels=CLASSES,
    )
    networks = [transformers.ViTForImageClassification(config) for _ in range(MEMBERS)]
    ensemble = calmix.DeepEnsemble(networks, output="logits")
    for mixer in (calmix.CutMix(CLASSES, members=MEMBERS), calmix.Mixup(CLASSES)):
        model = MixedClassifier(ensemble, mixer).train()
        out = model(pixel_values=torch.rand(4, 3, 8, 8), labels=torch.tensor([0, 1, 2, 0]))
        assert out.logits.shape == (4, MEMBERS, CLASSES)


@pytest.mark.parametrize("make", [deep, batch_ensemble, dropout_ensemble])
def test_the_trainer_gathers_predictions_rightly(tmp_path, make):
    members = 1 if make is dropout_ensemble else MEMBERS
    model = MixedClassifier(make(), calmix.CAMixup(CLASSES, members=members))
    runner = trainer(tmp_path, model)
    runner.train()
    assert len(model.mixer.history) == 2
    active = model.mixer.active.clone()
    test = texts(23, seed=2)
    output = runner.predict(dataset(23, seed=2))
    assert torch.equal(model.mixer.active, active)
    assert len(model.mixer.history) == 2
    predictions = calmix.Predictions.from_batch_first(output.predictions, output.label_ids)
    assert torch.equal(predictions.labels, test["labels"])
    inputs = {name: test[name] for name in ("input_ids", "attention_mask")}
    model.eval()
    with torch.no_grad():
        expected = model.ensemble(**inputs)
    assert predictions.logits.shape == expected.shape
    if make is not dropout_ensemble:
        torch.testing.assert_close(predictions.logits, expected, rtol=1e-4, atol=1e-5)


def test_camixup_decides_from_the_evaluation_data(tmp_path):
    model = MixedClassifier(deep(), calmix.CAMixup(CLASSES, members=MEMBERS))
    runner = trainer(tmp_path, model, num_train_epochs=1, eval_on_start=True)
    runner.train()
    assert len(model.mixer.history) == 1
    assert len(model._forward_hooks) == 0
    expected = calmix.CAMixup(CLASSES, members=MEMBERS)
    rows = texts(20, seed=1)
    model.eval()
    with torch.no_grad():
        logits = model.ensemble(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"])
    expected.update(logits, rows["labels"])
    assert torch.equal(model.mixer.active, expected.active)
    runner.evaluate()
    assert len(model.mixer.history) == 1


def test_forgetting_counts_by_epoch(tmp_path):
    model = MixedClassifier(batch_ensemble(), calmix.ForgettingMixup(CLASSES, 32, members=MEMBERS))
    trainer(tmp_path, model, eval_strategy="no").train()
    assert len(model.mixer.history) == 2


@pytest.mark.parametrize("mixer", [calmix.CAMixup, calmix.Mixup])
def test_checkpoints_hold_the_mixer(tmp_path, mixer):
    model = MixedClassifier(batch_ensemble(), mixer(CLASSES, members=MEMBERS))
    trainer(tmp_path, model, save_strategy="epoch").train()
    other = MixedClassifier(batch_ensemble(), mixer(CLASSES, members=MEMBERS))
    runner = trainer(tmp_path, other, num_train_epochs=3)
    runner.train(resume_from_checkpoint=str(tmp_path / "checkpoint-8"))
    assert len(other.mixer.history) == 3
    assert torch.equal(other.mixer.history[:2], model.mixer.history)
    again = MixedClassifier(batch_ensemble(), mixer(CLASSES, members=MEMBERS))
    again.load_state_dict(other.state_dict())
    assert torch.equal(again.mixer.history, other.mixer.history)
    assert torch.equal(again.mixer.active, other.mixer.active)


def test_gradient_accumulation_divides_the_loss(tmp_path):
    """Four batches of 8 accumulated have the gradients of their mean."""
    states = []
    for batch, steps in ((32, 1), (8, 4)):
        model = MixedClassifier(deep(), calmix.augment.NoMixing(CLASSES))
        options = {
            "per_device_train_batch_size": batch,
            "gradient_accumulation_steps": steps,
            "max_grad_norm": 0,
        }
        options |= {"optim": "sgd", "num_train_epochs": 1, "eval_strategy": "no"}
        trainer(tmp_path, model, **options).train()
        states.append(dict(model.named_parameters()))
    for name, value in states[0].items():
        torch.testing.assert_close(value, states[1][name], rtol=1e-4, atol=1e-6, msg=name)


def test_bad_input_names_what_to_do(tmp_path):
    with pytest.raises(InputError, match=r"DeepEnsemble\(\[network\]"):
        MixedClassifier(bert(), calmix.Mixup(CLASSES))
    with pytest.raises(InputError, match="mixer is a str"):
        MixedClassifier(deep(), "camixup")
    rows = texts(4)
    with pytest.raises(InputError, match="either input_ids"):
        MixedClassifier(deep(), calmix.Mixup(CLASSES))(labels=rows["labels"])
    with pytest.raises(InputError, match="spatial axes"):
        MixedClassifier(deep(), calmix.CutMix(CLASSES)).train()(rows["input_ids"], labels=rows["labels"])
    with pytest.raises(InputError, match="eval_strategy"):
        trainer(tmp_path, MixedClassifier(deep(), calmix.CAMixup(CLASSES)), eval_strategy="no").train()
    with pytest.raises(InputError, match="MixedClassifier"):
        trainer(tmp_path, bert()).train()
