from types import SimpleNamespace

import numpy as np
import pytest
import torch

from calmix import InputError, metrics, pool
from calmix.progress import Finished, Numbers, Progress, ignore
from calmix.runs import checkpoint
from calmix.runs.augmentation import MIXINGS
from calmix.runs.build import load_splits
from calmix.runs.evaluate import evaluate
from calmix.runs.folder import read_epochs
from calmix.runs.launch import Machine
from calmix.runs.predict import predict_logits
from calmix.runs.recipe import ENSEMBLES
from calmix.runs.trainer import Trainer
from tests.scenarios import tiny, trained


def logits_of(run):
    return predict_logits(run.model(), load_splits(run.recipe, None).test)


def trainer(recipe, folder, *, member=0, reporter=ignore, save_seconds=1e9):
    return Trainer(
        recipe,
        load_splits(recipe, None),
        folder,
        member=member,
        fabric=Machine(accelerator="cpu").fabric(),
        reporter=reporter,
        save_seconds=save_seconds,
    )


@pytest.mark.parametrize("ensemble", ENSEMBLES)
@pytest.mark.parametrize("augment", [*MIXINGS, "augmix", "augmix+camixup", "mixup+label-smoothing"])
def test_every_ensemble_with_every_augmentation(tmp_path, ensemble, augment):
    recipe = tiny(ensemble, augment, epochs=2, train_size=40)
    run = trained(recipe, tmp_path)
    logits = logits_of(run)
    assert logits.shape == (recipe.members, 50, 10)
    assert logits.isfinite().all()
    assert [(epoch.member, epoch.epoch) for epoch in run.history] == [
        (k, n) for k in range(recipe.streams) for n in (1, 2)
    ]
    own = recipe.members if ensemble == "batch" else 1
    for epoch in run.history:
        assert (epoch.mixed is not None) == recipe.adaptive
        if recipe.needs_validation:
            assert np.shape(epoch.mixed_classes) == (own, 10)
        else:
            assert epoch.mixed_classes is None


def test_training_learns(tmp_path):
    run = trained(tiny(train_size=400, epochs=8, width=8), tmp_path)
    labels = load_splits(run.recipe, None).test.labels
    assert metrics.accuracy(pool(logits_of(run)), labels) > 0.8


def test_the_first_epoch_of_camixup_mixes_no_class(tmp_path):
    plain, camixup, mixup = (
        trained(tiny("batch", augment), tmp_path).history for augment in ("none", "camixup", "mixup")
    )
    assert camixup[0].loss == pytest.approx(plain[0].loss, abs=1e-6)
    assert mixup[0].loss != pytest.approx(plain[0].loss, abs=1e-3)
    assert camixup[0].mixed == 0
    assert np.sum(camixup[0].mixed_classes) == 0


def test_an_epoch_records_what_was_mixed_in_it(tmp_path):
    """The rule by hand: a class is mixed in the epoch after its gap on validation data was not above 0."""
    recipe = tiny("batch", "camixup", epochs=3)
    stream, labels = trainer(recipe, tmp_path), load_splits(recipe, None).validation.labels
    gaps = []
    while not stream.finished:
        logits = stream.epoch()
        gaps.append([metrics.class_gap(member.softmax(-1), labels).tolist() for member in logits])
        stream.decide(logits)
    epochs = read_epochs(tmp_path / "metrics.jsonl")
    for before, epoch in zip(gaps, epochs[1:], strict=False):
        assert np.array_equal(np.array(before) <= 0, np.array(epoch.mixed_classes, dtype=bool))
        assert epoch.mixed == pytest.approx(np.mean(epoch.mixed_classes))
    assert np.sum(epochs[1].mixed_classes) > 0


def test_an_epoch_is_written_when_it_ends_although_no_checkpoint_is_due(tmp_path):
    stream = trainer(tiny("batch", "camixup"), tmp_path, save_seconds=1e9)
    path = tmp_path / "metrics.jsonl"
    assert path.read_bytes() == b""
    for count in (1, 2):
        stream.decide(stream.epoch())
        assert [epoch.epoch for epoch in read_epochs(path)] == list(range(1, count + 1))
        assert checkpoint.load(tmp_path)["epoch"] == 0
    # What resumes has no more lines than its checkpoint has epochs.
    assert trainer(tiny("batch", "camixup"), tmp_path).position.epoch == 0
    assert path.read_bytes() == b""


def test_the_numbers_of_an_epoch_are_those_of_its_validation_logits(tmp_path):
    stream = trainer(tiny("batch", "camixup"), tmp_path)
    logits = stream.epoch()
    stream.decide(logits)
    (epoch,) = read_epochs(tmp_path / "metrics.jsonl")
    labels = stream.splits.validation.labels
    assert epoch.accuracy == metrics.accuracy(pool(logits), labels)
    assert epoch.ece == metrics.ece(pool(logits), labels)
    assert epoch.gap_pool == metrics.gap(pool(logits), labels)
    assert epoch.gap_members == tuple(metrics.gap(member.softmax(-1), labels) for member in logits)


def test_epochs_without_a_validation_have_no_numbers_of_it(tmp_path):
    run = trained(tiny(epochs=6, train_size=80, validation_size=80), tmp_path)
    assert [epoch.accuracy is not None for epoch in run.history] == [False, False, False, True, False, True]


def test_mc_dropout_decides_by_few_samples(tmp_path):
    stream = trainer(tiny("mc", "camixup", members=5), tmp_path)
    assert stream.epoch().shape[0] == 2
    assert stream.model.samples == 5


def test_what_a_stream_reports(tmp_path):
    events = []
    trained(tiny("deep", epochs=2, members=1), tmp_path, reporter=events.append)
    shares = [event.done / event.total for event in events if isinstance(event, Progress)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    numbers = [event for event in events if isinstance(event, Numbers)]
    assert [(event.task, event.step) for event in numbers] == [("member 0", 1), ("member 0", 2)]
    assert [set(event.values) for event in numbers] == [{"loss"}, {"loss", "accuracy", "ece", "gap_pool"}]
    (end,) = [event for event in events if isinstance(event, Finished)]
    assert "epoch 2/2" in end.text


def test_consistency_changes_the_loss_by_its_weight(tmp_path):
    none, half, full = (
        trained(tiny("batch", "augmix", consistency=weight, epochs=1), tmp_path).history[0].loss
        for weight in (1e-9, 6.0, 12.0)
    )
    assert full > half > none


def test_a_step_on_one_image_is_too_small_for_batch_norm(tmp_path):
    with pytest.raises(InputError, match="larger batch_size"):
        trained(tiny(batch_size=1), tmp_path)


def test_a_perceptron_takes_images(tmp_path):
    run = trained(tiny().replace(network="mlp", hidden=4), tmp_path)
    assert evaluate(run).clean.examples == 50


def test_loss_that_is_not_finite_stops_with_advice(tmp_path):
    with pytest.raises(
        InputError, match=r"loss is (nan|inf) at epoch \d+, step \d+, learning rate .* Try a lower"
    ):
        trained(tiny(learning_rate=1e12, schedule="steps", warmup_epochs=0.0, epochs=20), tmp_path)


def test_weights_that_the_last_step_of_an_epoch_ruined_stop_it_too(tmp_path):
    """The loss before that step was finite: the validation logits show it first."""
    recipe = tiny(learning_rate=1e30, schedule="steps", warmup_epochs=0.0, train_size=20, epochs=1)
    with pytest.raises(InputError, match=r"logits are not finite at epoch 1, step 0, learning rate 1e\+30"):
        trained(recipe, tmp_path)


def test_the_members_of_a_deep_ensemble_differ(tmp_path):
    logits = logits_of(trained(tiny("deep"), tmp_path))
    assert not np.allclose(logits[0], logits[1], atol=1e-2)


def test_a_single_network_is_the_first_member_of_a_deep_ensemble(tmp_path):
    # The presets of the two agree in everything that a member sees.
    single, deep = (logits_of(trained(tiny(ensemble), tmp_path)) for ensemble in ("single", "deep"))
    assert torch.equal(single[0], deep[0])


def test_time_in_which_a_stream_waits_is_not_counted(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("calmix.runs.trainer.time", SimpleNamespace(monotonic=lambda: clock.now))
    stream = trainer(tiny("deep", "camixup", gap_of="pool", epochs=1), tmp_path)
    logits = stream.epoch()
    clock.now += 100  # the other members' epoch
    stream.decide(logits)
    (epoch,) = read_epochs(tmp_path / "metrics.jsonl")
    assert epoch.seconds == 0
