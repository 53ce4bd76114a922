"""Times: the formula by hand, the operations of a known network, and that a step is really timed."""

import dataclasses

import pytest

from calmix import InputError
from calmix.paper.forecast import KNOWN, Sizes, counted, forecast, images, sizes, timed
from calmix.paper.items import chosen
from calmix.paper.methods import method
from calmix.paper.reproduce import make_plan

DIGITS = Sizes(1200, 597, 10, (1, 8, 8))


def test_images_of_a_run():
    recipe = method("digits", "deep", scale="smoke")
    # Two members, two epochs of 120 images and a third of 60; a third of 100 and of 15 x 5 x 50 images.
    assert images(recipe, DIGITS, 15) == (2 * 2 * 140, pytest.approx(2 * 3850 / 3))
    mc = method("digits", "mc", scale="smoke")
    assert images(mc, DIGITS, 0) == (2 * 180, pytest.approx(100))
    # Clean and mixed images make a step twice as dear, and not an image of an evaluation.
    assert images(method("digits", "single", "regmixup", scale="smoke"), DIGITS, 0) == (
        2 * (120 + 10),
        pytest.approx(100 / 6),
    )
    paper = method("cifar10", "batch", scale="paper")
    assert images(paper, KNOWN["cifar10"], 0)[0] == pytest.approx(250 * (47_500 + 2500 / 3))


def test_operations_of_known_networks():
    """Wide ResNet 28-10: 5.2 billion multiplications; ResNet-50: 4.1; two operations each, three passes."""
    single = counted(method("cifar10", "single", scale="paper"), KNOWN["cifar10"])
    assert single == pytest.approx(3 * 2 * 5.24e9, rel=0.01)
    batch = method("cifar10", "batch", scale="paper")
    assert counted(batch, KNOWN["cifar10"]) == 4 * single
    assert counted(method("cifar10", "mc", scale="paper"), KNOWN["cifar10"]) == single
    assert counted(method("cifar10", "deep", "regmixup", scale="paper"), KNOWN["cifar10"]) == 2 * single
    imagenet = dataclasses.replace(method("folder", "batch", scale="paper"), ensemble="single", members=1)
    assert counted(imagenet, KNOWN["folder"]) == pytest.approx(3 * 2 * 4.09e9, rel=0.01)


def test_a_step_is_timed():
    small, large = (method("digits", "single", scale="smoke") for _ in range(2))
    large = dataclasses.replace(large, width=128)  # 14 times as long, so that a busy machine does not matter
    assert 0 < 2 * timed(small, DIGITS) < timed(large, DIGITS)


def test_the_papers_sets_are_known_where_they_are_not_here(tmp_path):
    assert sizes("cifar100", tmp_path) == KNOWN["cifar100"]
    assert sizes("digits", tmp_path) == DIGITS
    with pytest.raises(InputError, match="mnist is not here"):
        sizes("mnist", tmp_path)


def test_a_forecast_counts_shared_runs_once(tmp_path):
    items = chosen(["mixup-counts", "imagenet", "camixup"])
    plan = make_plan(items, dataset="cifar10", scale="paper", seeds=1, root=tmp_path, absent=True)
    runs, by_item = forecast(plan, tmp_path, tmp_path, tflops=40)
    assert len(runs.rows) == 9 + 3
    hours = {name: float(text.removesuffix(" h").replace(",", "")) for name, text in by_item.rows}
    total = hours.pop("together, shared runs once")
    assert total == pytest.approx(hours["camixup"] + hours["imagenet"], rel=0.01)
    training, testing = images(method("cifar10", "batch", scale="paper"), KNOWN["cifar10"], 0)
    expected = 4 * 3 * 2 * 5.24e9 * (training + testing) / 40e12 / 3600
    counts = next(float(row[2].removesuffix(" h")) for row in runs.rows if "batch-none" in row[0])
    assert counts > expected * 0.99  # and its evaluation under corruption
    with pytest.raises(InputError, match="--tflops"):
        forecast(plan, tmp_path, tmp_path, tflops=0)
