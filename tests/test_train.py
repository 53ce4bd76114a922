import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from calmix import InputError, metrics, pool
from calmix.build import load_splits
from calmix.evaluate import evaluate
from calmix.launch import Machine, load_model
from calmix.predict import predict
from calmix.progress import Silence
from calmix.recipe import ENSEMBLES, Recipe
from calmix.train import learning_rate, train_stream
from tests.scenarios import mixed_epochs, tiny, trained

AUGMENTS = ("none", "mixup", "cutmix", "regmixup", "mixupmp", "camixup", "cutmix-camixup", "forgetting")


def test_steps_warm_up_and_decay():
    recipe = Recipe(learning_rate=0.4, epochs=10, warmup_epochs=2.0, decay_epochs=(5, 8), decay_ratio=0.1)
    rates = [learning_rate(recipe, epoch) for epoch in (0, 1, 2, 4.99, 5, 8, 9.9)]
    assert rates == pytest.approx([0, 0.2, 0.4, 0.4, 0.04, 0.004, 0.004])


def test_one_cycle_rises_for_a_fifth_and_ends_at_zero():
    recipe = Recipe(learning_rate=1.0, epochs=10, schedule="one-cycle")
    rates = [learning_rate(recipe, epoch) for epoch in (0, 1, 2, 6, 10)]
    assert rates == pytest.approx([0, 0.5, 1.0, 0.5, 0])


@pytest.mark.parametrize("ensemble", ENSEMBLES)
@pytest.mark.parametrize("augment", [*AUGMENTS, "augmix", "augmix+camixup", "mixup+label-smoothing"])
def test_every_ensemble_with_every_augmentation(tmp_path, ensemble, augment):
    recipe = tiny(ensemble, augment, epochs=2)
    run = trained(recipe, tmp_path)
    splits = load_splits(recipe, None)
    logits = predict(load_model(run, splits), splits.test)
    assert logits.shape == (recipe.members, 50, 10)
    assert logits.isfinite().all()
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    assert len(lines) == 2 * run.streams
    assert lines[-1]["epoch"] == 2
    if "camixup" in augment:
        members = recipe.members if ensemble in ("deep", "batch") else 1
        assert mixed_epochs(run).shape == (2, members, 10)


def test_training_learns(tmp_path):
    recipe = tiny(train_size=400, epochs=8, width=8)
    run = trained(recipe, tmp_path)
    splits = load_splits(recipe, None)
    probs = pool(predict(load_model(run, splits), splits.test))
    assert metrics.accuracy(probs, splits.test.labels) > 0.8


def test_training_validation_and_test_share_no_image():
    recipe = tiny(train_size=0, validation_size=300, test_size=0)
    splits = load_splits(recipe, None)
    parts = [splits.train, splits.validation, splits.test]
    seen = [{row.tobytes() for row in part.inputs.contiguous().numpy()} for part in parts]
    sizes = [len(part) for part in parts]
    assert sizes == [900, 300, 597]
    # The 1,797 digits hold no picture twice, so any overlap would be a leak.
    assert len(seen[0] | seen[1] | seen[2]) == 1797


def test_what_is_held_out_is_the_same_for_every_method_and_seed():
    first = load_splits(tiny("deep", "camixup"), None)
    second = load_splits(dataclasses.replace(tiny("batch", "none"), seed=99), None)
    for name in ("train", "validation", "test"):
        assert torch.equal(getattr(first, name).inputs, getattr(second, name).inputs)


def test_the_first_epoch_of_camixup_mixes_nobody(tmp_path):
    plain = json.loads(trained(tiny("batch"), tmp_path).metrics.read_text().splitlines()[0])
    camixup = json.loads(trained(tiny("batch", "camixup"), tmp_path).metrics.read_text().splitlines()[0])
    mixup = json.loads(trained(tiny("batch", "mixup"), tmp_path).metrics.read_text().splitlines()[0])
    assert camixup["loss"] == pytest.approx(plain["loss"], abs=1e-6)
    assert mixup["loss"] != pytest.approx(plain["loss"], abs=1e-3)


def test_consistency_changes_the_loss_by_its_weight(tmp_path):
    lines = [
        json.loads(trained(tiny("batch", "augmix", consistency=c, epochs=1), tmp_path).metrics.read_text())
        for c in (1e-9, 6.0, 12.0)
    ]
    none, half, full = (line["loss"] for line in lines)
    assert full > half > none


def test_a_step_on_one_image_is_too_small_for_batch_norm(tmp_path):
    with pytest.raises(InputError, match="larger --batch-size"):
        trained(tiny(batch_size=1), tmp_path)


def test_a_perceptron_takes_images(tmp_path):
    run = trained(tiny(network="mlp"), tmp_path)
    assert evaluate(run, listener=Silence())["clean"]["examples"] == 50


def test_loss_that_is_not_finite_stops_with_advice(tmp_path):
    with pytest.raises(
        InputError, match=r"loss is (nan|inf) at epoch \d+, step \d+, learning rate .* Try a lower"
    ):
        trained(tiny(learning_rate=1e12, schedule="steps", warmup_epochs=0.0, epochs=20), tmp_path)


def test_the_members_of_a_deep_ensemble_differ(tmp_path):
    recipe = tiny("deep")
    splits = load_splits(recipe, None)
    logits = predict(load_model(trained(recipe, tmp_path), splits), splits.test)
    assert not np.allclose(logits[0], logits[1], atol=1e-2)


def test_a_single_network_is_the_first_member_of_a_deep_ensemble(tmp_path):
    splits = load_splits(tiny(), None)
    single = predict(load_model(trained(tiny(), tmp_path), splits), splits.test)
    deep = predict(load_model(trained(tiny("deep"), tmp_path), splits), splits.test)
    # The presets of the two agree in everything that a member sees.
    assert torch.equal(single[0], deep[0])


def test_a_stream_is_not_charged_for_the_time_in_which_it_waits(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("calmix.train.time", SimpleNamespace(monotonic=lambda: clock.now))
    recipe = tiny("deep", "camixup", gap_of="pool", epochs=1)
    fabric = Machine(accelerator="cpu").fabric()
    stream = train_stream(
        recipe,
        load_splits(recipe, None),
        tmp_path,
        member=0,
        fabric=fabric,
        listener=Silence(),
        save_seconds=1e9,
    )
    _, logits = next(stream)
    clock.now += 100  # the other members' epoch
    with pytest.raises(StopIteration):
        stream.send(logits)
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["seconds"] == 0
