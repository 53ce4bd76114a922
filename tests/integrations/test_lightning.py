"""The callback in the real Trainer, on a small problem: equal to a plain loop, and exact after a resume."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import calmix
from calmix.errors import InputError

lightning = pytest.importorskip("lightning.pytorch")
from calmix.integrations.lightning import MixerCallback  # noqa: E402

pytestmark = [  # words of Lightning
    pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*fewer than the logging interval"),
    pytest.mark.filterwarnings("ignore:.*have no `val_dataloader`"),
    pytest.mark.filterwarnings("ignore:.*exists and is not empty"),
]
CLASSES, MEMBERS = 3, 2


def examples(size, seed=0):
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(size) % CLASSES
    return torch.randn(CLASSES, 5, generator=torch.Generator().manual_seed(9))[y] + torch.randn(
        size, 5, generator=draw
    ), y


class Classifier(lightning.LightningModule):
    def __init__(self, mixer, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.model = calmix.BatchEnsemble(nn.Linear(5, CLASSES), members=MEMBERS)
        self.mixer = mixer
        self.draws = torch.Generator().manual_seed(seed)

    def training_step(self, batch, batch_idx):
        x, y, index = batch
        mixed = self.mixer(x, y, index=index, generator=self.draws)
        logits = self.model(mixed.inputs, per_member=True)
        self.mixer.observe(logits, y, index)
        return mixed.loss(logits).mean()

    def validation_step(self, batch, batch_idx):
        x, y, index = batch
        return {"logits": self.model(x), "labels": y, "ids": index}

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.5)


def loader(size, seed=0, batch_size=16):
    x, y = examples(size, seed)
    return DataLoader(TensorDataset(x, y, torch.arange(size)), batch_size=batch_size)


def trainer(tmp_path, callback, **options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    options = {"max_epochs": 3, "enable_checkpointing": False, **options}
    return lightning.Trainer(
        accelerator="cpu", devices=1, default_root_dir=tmp_path, callbacks=[callback], **quiet, **options
    )


def plain_loop(mixer, epochs):
    """What the Trainer is expected to do."""
    module = Classifier(mixer)
    optimiser = module.configure_optimizers()
    for _ in range(epochs):
        module.train()
        for batch in loader(48):
            optimiser.zero_grad()
            module.training_step(batch, 0).backward()
            optimiser.step()
        module.eval()
        with torch.no_grad():
            for batch in loader(30, seed=1):
                rows = module.validation_step(batch, 0)
                mixer.validate(rows["logits"], rows["labels"])
        mixer.update()
    return module


MIXERS = {
    "mixup": lambda: calmix.Mixup(CLASSES),
    "regmixup": lambda: calmix.RegMixup(CLASSES, members=MEMBERS),
    "camixup": lambda: calmix.CAMixup(CLASSES, members=MEMBERS),
    "forgetting": lambda: calmix.ForgettingMixup(CLASSES, 48, members=MEMBERS),
}


@pytest.mark.parametrize("name", MIXERS)
def test_the_trainer_equals_a_plain_loop(tmp_path, name):
    module = Classifier(MIXERS[name]())
    trainer(tmp_path, MixerCallback()).fit(module, loader(48), loader(30, seed=1))
    expected = plain_loop(MIXERS[name](), 3)
    assert module.mixer.history.shape == expected.mixer.history.shape
    assert torch.equal(module.mixer.history, expected.mixer.history)
    assert torch.equal(module.mixer.active, expected.mixer.active)
    for own, wanted in zip(module.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(own, wanted)


def test_camixup_decides(tmp_path):
    """The test above compares something: classes are mixed in some epochs and not in others."""
    history = plain_loop(MIXERS["camixup"](), 3).mixer.history
    assert history.any()
    assert not history.all()


@pytest.mark.parametrize("name", ["camixup", "forgetting"])
def test_resumed_equals_uninterrupted(tmp_path, name):
    """Lightning writes its checkpoints at the end of a validation: the decision must be made by then."""
    straight = Classifier(MIXERS[name]())
    trainer(tmp_path, MixerCallback(), max_epochs=4).fit(straight, loader(48), loader(30, seed=1))
    first = Classifier(MIXERS[name]())
    part = trainer(tmp_path, MixerCallback(), max_epochs=2, enable_checkpointing=True)
    part.fit(first, loader(48), loader(30, seed=1))
    draws = first.draws.get_state()
    second = Classifier(MIXERS[name](), seed=1)
    second.draws.set_state(draws)
    rest = trainer(tmp_path, MixerCallback(), max_epochs=4, enable_checkpointing=True)
    rest.fit(second, loader(48), loader(30, seed=1), ckpt_path=part.checkpoint_callback.best_model_path)
    assert torch.equal(second.mixer.history, straight.mixer.history)
    assert torch.equal(second.mixer.active, straight.mixer.active)
    for own, wanted in zip(second.parameters(), straight.parameters(), strict=True):
        torch.testing.assert_close(own, wanted)


def test_several_validations_in_an_epoch(tmp_path):
    module = Classifier(MIXERS["camixup"]())
    trainer(tmp_path, MixerCallback(), max_epochs=2, val_check_interval=1).fit(
        module, loader(48), loader(30, seed=1)
    )
    assert len(module.mixer.history) == 6
    module = Classifier(MIXERS["forgetting"]())
    trainer(tmp_path, MixerCallback(), max_epochs=2, val_check_interval=1).fit(
        module, loader(48), loader(30, seed=1)
    )
    assert len(module.mixer.history) == 2


def test_validation_every_other_epoch(tmp_path):
    for name, updates in (("camixup", 2), ("forgetting", 4)):
        module = Classifier(MIXERS[name]())
        trainer(tmp_path, MixerCallback(), max_epochs=4, check_val_every_n_epoch=2).fit(
            module, loader(48), loader(30, seed=1)
        )
        assert len(module.mixer.history) == updates


def test_without_validation(tmp_path):
    module = Classifier(MIXERS["forgetting"]())
    trainer(tmp_path, MixerCallback()).fit(module, loader(48))
    assert len(module.mixer.history) == 3
    with pytest.raises(InputError, match=r"give trainer\.fit a validation loader"):
        trainer(tmp_path, MixerCallback()).fit(Classifier(MIXERS["camixup"]()), loader(48))


def test_predictions_are_saved(tmp_path):
    module = Classifier(MIXERS["camixup"]())
    runner = trainer(tmp_path, MixerCallback(tmp_path / "predictions"))
    runner.fit(module, loader(48), loader(30, seed=1))
    history = module.mixer.history
    runner.validate(module, loader(60, seed=3), verbose=False)
    runner.test(module, loader(20, seed=2), verbose=False)
    assert torch.equal(module.mixer.history, history)
    module.eval()
    for name, size, seed in (("validation", 30, 1), ("test", 20, 2)):
        saved = calmix.load_predictions(tmp_path / "predictions" / f"{name}.npz")
        x, y = examples(size, seed)
        with torch.no_grad():
            torch.testing.assert_close(saved.logits, module.model(x))
        assert torch.equal(saved.labels, y)
        assert saved.ids.tolist() == list(range(size))


def test_mc_dropout(tmp_path):
    module = Classifier(calmix.CAMixup(CLASSES))
    module.model = calmix.MCDropout(nn.Sequential(nn.Dropout(0.2), nn.Linear(5, CLASSES)), samples=4)
    trainer(tmp_path, MixerCallback(tmp_path)).fit(module, loader(48), loader(30, seed=1))
    assert len(module.mixer.history) == 3
    assert calmix.load_predictions(tmp_path / "validation.npz").logits.shape == (4, 30, CLASSES)


def test_the_contract_is_checked(tmp_path):
    module = Classifier(MIXERS["camixup"]())
    module.validation_step = lambda batch, batch_idx: None
    with pytest.raises(InputError, match="validation_step returned NoneType"):
        trainer(tmp_path, MixerCallback()).fit(module, loader(48), loader(30, seed=1))
    with pytest.raises(InputError, match=r"self.mixer = calmix.CAMixup"):
        trainer(tmp_path, MixerCallback()).fit(Classifier(None), loader(48), loader(30, seed=1))
