"""Times: the formula by hand, the operations of a known network, and that a step is really timed."""

import dataclasses

import numpy as np
import pytest
import torch

from calmix import InputError
from calmix.runs.folder import create, epoch_line
from calmix.runs.presets import preset
from calmix.study.forecast import (
    PUBLIC_SIZES,
    Forecast,
    Sizes,
    forecast,
    images,
    operations,
    sizes,
    time_per_image,
    time_to_corrupt,
    time_to_score,
)
from tests.fabricate import fabricate

DIGITS = Sizes(1200, 597, 10, (1, 8, 8))
CIFAR = PUBLIC_SIZES["cifar10"]


def smoke(ensemble, augment="none"):
    return preset("digits", ensemble, augment, scale="smoke")


def paper(ensemble, augment="none"):
    return preset("cifar10", ensemble, augment, scale="paper")


def test_images_of_a_run():
    # Two members, two epochs of 120 images, validated every second time by a third of 60; then a third of 60
    # validation, 100 test and 15 x 5 x 50 corrupted images.
    assert images(smoke("deep"), DIGITS, 15) == (2 * 2 * 130, pytest.approx(2 * 3910 / 3))
    # MC-dropout: CAMixup decides by two samples every epoch, three test.
    assert images(smoke("mc", "camixup"), DIGITS, 0) == (2 * 160, pytest.approx(160))
    # A step on clean and mixed rows costs two, and an image of an evaluation one.
    assert images(smoke("single", "regmixup"), DIGITS, 0) == (2 * (120 + 10), pytest.approx(160 / 6))
    assert images(paper("batch", "camixup"), CIFAR, 0)[0] == pytest.approx(250 * (47_500 + 2500 / 3))


def test_operations_of_known_networks():
    """Wide ResNet 28-10: 5.2 billion multiplications; ResNet-50: 4.1; two operations each, three passes."""
    single = operations(paper("single"), CIFAR)
    assert single == pytest.approx(3 * 2 * 5.24e9, rel=0.01)
    assert operations(paper("batch"), CIFAR) == 4 * single
    assert operations(paper("mc"), CIFAR) == single
    assert operations(paper("deep", "regmixup"), CIFAR) == 2 * single
    imagenet = preset("folder", "single", scale="paper")
    assert operations(imagenet, PUBLIC_SIZES["folder"]) == pytest.approx(3 * 2 * 4.09e9, rel=0.01)


def test_a_step_is_timed():
    small, large = smoke("single"), smoke("single").replace(width=128)  # 14 times as long, on a busy machine
    assert 0 < 2 * time_per_image(small, DIGITS) < time_per_image(large, DIGITS)


@pytest.mark.parametrize(
    "recipe",
    [smoke("batch", "augmix+camixup"), smoke("mc", "forgetting"), preset("clusters", "deep", "mixup")],
    ids=lambda recipe: recipe.name,
)
def test_every_kind_of_run_can_be_timed(recipe):
    size = Sizes(500, 500, 5, (2,)) if recipe.dataset == "clusters" else DIGITS
    assert time_per_image(recipe, size) > 0


def test_sizes_of_public_data_sets_are_known_without_them(tmp_path):
    assert sizes(preset("cifar100", "single"), tmp_path) == PUBLIC_SIZES["cifar100"]
    assert sizes(preset("digits", "single"), tmp_path) == DIGITS
    assert sizes(preset("mnist", "single"), tmp_path).train == 60_000
    with pytest.raises(InputError, match=r"mine\.npz"):
        sizes(preset("digits", "single").replace(dataset="mine.npz", digests={"dataset": "0"}), tmp_path)


def test_hours_by_hand(tmp_path):
    recipe = paper("batch")
    (hours,) = (f.hours for f in forecast({recipe: ()}, [tmp_path], tmp_path, tflops=40).values())
    assert hours == pytest.approx(operations(recipe, CIFAR) * sum(images(recipe, CIFAR, 0)) / 40e12 / 3600)
    (half,) = (f.hours for f in forecast({recipe: ()}, [tmp_path], tmp_path, tflops=80).values())
    assert half == pytest.approx(hours / 2)


def test_what_exists_is_not_counted(tmp_path):
    finished = fabricate(tmp_path, "single").recipe
    evaluated_in_part = fabricate(tmp_path, "single", seed=1).recipe
    started = create(paper("single").replace(seed=2), tmp_path)
    missing = paper("single").replace(seed=3)
    (started.folder / "checkpoint.pt").write_bytes(b"")
    epoch = dataclasses.replace(fabricate(tmp_path / "other").history[0], epoch=50)
    (started.folder / "metrics.jsonl").write_bytes(epoch_line(epoch))
    plan = {finished: (), evaluated_in_part: ("fog",), started.recipe: (), missing: ()}
    forecasts = forecast(plan, [tmp_path], tmp_path, tflops=1)
    assert [f.state for f in forecasts.values()] == ["finished", "started", "started", "missing"]
    assert forecasts[finished] == Forecast("finished", 0.0)
    per_image = operations(missing, CIFAR) / 1e12 / 3600
    training, testing = images(missing, CIFAR, 0)
    assert forecasts[missing].hours == pytest.approx(per_image * (training + testing))
    # 50 of 200 epochs are done.
    assert forecasts[started.recipe].hours == pytest.approx(per_image * (0.75 * training + testing))
    testing = images(evaluated_in_part, CIFAR, 1)[1]
    assert forecasts[evaluated_in_part].hours == pytest.approx(per_image * testing)


def test_runs_that_differ_in_their_seed_are_timed_once(tmp_path, monkeypatch):
    timed = []

    def one_second(recipe, size):
        timed.append(recipe)
        return 1.0

    monkeypatch.setattr("calmix.study.forecast.time_per_image", one_second)
    recipes = [smoke("single").replace(seed=seed) for seed in range(3)] + [smoke("batch")]
    forecasts = forecast(dict.fromkeys(recipes, ()), [tmp_path], None)
    assert len(timed) == 2
    training, testing = images(recipes[0], DIGITS, 0)
    assert forecasts[recipes[0]].hours == pytest.approx((training + testing) / 3600)


def test_corrupted_test_sets_are_counted_and_made_once(tmp_path, monkeypatch):
    monkeypatch.setattr("calmix.study.forecast.time_per_image", lambda recipe, size: 0.0)
    monkeypatch.setattr("calmix.study.forecast.time_to_corrupt", lambda name, shape: 2.0)
    monkeypatch.setattr("calmix.study.forecast.time_to_score", lambda members, examples, classes: 36.0)
    recipes = [smoke("single").replace(seed=seed) for seed in range(2)]
    forecasts = forecast(dict.fromkeys(recipes, ("fog", "contrast")), [tmp_path], None)
    # Two types at five severities: 36 seconds each for the metrics, and 50 images of 2 seconds for the first.
    assert [f.hours for f in forecasts.values()] == pytest.approx([(360 + 1000) / 3600, 360 / 3600])
    elsewhere = forecast({recipes[0]: ("fog",)}, [tmp_path], None, tflops=1)[recipes[0]]
    expected = operations(recipes[0], DIGITS) * sum(images(recipes[0], DIGITS, 1)) / 1e12 / 3600
    assert elsewhere.hours == pytest.approx(expected)


def test_corruptions_and_metrics_are_really_timed():
    assert time_to_corrupt("fog", (3, 32, 32)) > 0
    assert time_to_corrupt("fog", (7,)) == 0
    assert time_to_score(2, 100, 3) > 0


def test_steps_on_data_of_ones_own_are_timed_on_its_examples(tmp_path):
    inputs = torch.rand(30, 7)
    np.savez(
        tmp_path / "mine.npz",
        x_train=inputs,
        y_train=np.arange(30) % 3,
        x_test=inputs,
        y_test=np.arange(30) % 3,
    )
    recipe = preset(tmp_path / "mine.npz", "single", network="mlp").replace(epochs=2, batch_size=8)
    size = sizes(recipe, None)
    assert (size.train, size.classes, size.shape) == (30, 3, (7,))
    assert forecast({recipe: ()}, [tmp_path], None)[recipe].hours > 0
