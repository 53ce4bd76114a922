import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from calmix.predictions import Predictions
from calmix.report.figures import corruption_curves, error_and_ece_bars, mixup_counts, training_curves
from calmix.report.plates import draw_plates
from calmix.report.results import read_results
from calmix.report.style import COLOURS, save_figure
from tests.report.fabricate import EPOCHS, fabricate


@pytest.fixture
def results(tmp_path):
    names = ("none", "mixup", "camixup")
    return read_results([fabricate(tmp_path, augment=a, seed=s) for a in names for s in (0, 1)])


def test_bars_are_the_means_over_seeds_in_the_colours_of_their_augmentation(results):
    error, ece = error_and_ece_bars(results).axes
    bars = [bar for bar in ece.patches if bar.get_height()]
    for bar, augment in zip(bars, ("none", "mixup", "camixup"), strict=True):
        values = [100 * r.clean("ece") for r in results if r.recipe.augment == augment]
        assert bar.get_height() == pytest.approx(np.mean(values))
        assert to_hex(bar.get_facecolor()).upper() == COLOURS[augment]
    heights = [bar.get_height() for bar in error.patches if bar.get_height()]
    assert heights[0] == pytest.approx(100 - 100 * np.mean([r.clean("accuracy") for r in results[:2]]))


def test_corruption_starts_at_the_clean_test_set(results):
    error, ece = corruption_curves(results).axes
    first = error.get_lines()[0]
    assert first.get_xdata().tolist() == [0, 1, 2, 3, 4, 5]
    clean = np.mean([r.clean("accuracy") for r in results[:2]])
    assert first.get_ydata()[0] == pytest.approx(100 - 100 * clean)
    assert (np.diff(first.get_ydata()) > 0).all()
    assert [line.get_label() for line in ece.get_lines()] == ["none", "mixup", "camixup"]


def test_training_has_a_point_for_every_epoch(results):
    accuracy, _, gap = training_curves(results).axes
    line = accuracy.get_lines()[0]
    assert line.get_xdata().tolist() == list(range(1, EPOCHS + 1))
    assert line.get_ydata()[-1] == pytest.approx(100 * results[0].history[-1]["accuracy"], abs=3)
    assert gap.get_ylabel() == "gap (points)"


def test_who_was_mixed():
    mixed = np.zeros((4, 2, 3), int)
    mixed[:, :, 0] = 1  # always
    mixed[:2, 0, 1] = 1  # half of the epochs, one member of two
    predictions = Predictions(torch.eye(3)[None, [0, 0, 1, 2]], torch.tensor([0, 1, 1, 2]))
    top, bottom = mixup_counts(mixed, ["a", "$b$", "c" * 30], predictions).axes
    assert [bar.get_height() for bar in top.patches] == [100, 25, 0]
    assert [bar.get_height() for bar in bottom.patches] == [100, 50, 100]
    assert [label.get_text() for label in bottom.get_xticklabels()] == ["a", r"\$b\$", "c" * 17 + "…"]


def test_groups_that_are_no_classes_have_no_accuracy():
    predictions = Predictions(torch.zeros(1, 4, 3), torch.tensor([0, 1, 1, 2]))
    assert len(mixup_counts(np.ones((2, 1, 5)), list("abcde"), predictions).axes) == 1


def test_every_figure_of_the_page_has_a_file_name_and_words(results, tmp_path):
    plates = list(draw_plates(results))
    kinds = {plate.name.split("-")[0] for plate in plates}
    assert kinds == {"bars", "reliability", "corruption", "training", "mixed"}
    assert len({plate.name for plate in plates}) == len(plates)
    assert all(plate.title and plate.caption and plate.alt for plate in plates)
    for ending in ("pdf", "png", "svg"):
        save_figure(plates[0].figure, tmp_path / f"x.{ending}")
        assert (tmp_path / f"x.{ending}").stat().st_size > 1000


def test_many_augmentations_are_dealt_to_several_diagrams(tmp_path):
    names = ("none", "mixup", "cutmix", "augmix", "regmixup", "mixupmp", "forgetting")
    results = read_results([fabricate(tmp_path, augment=a, corrupted=False) for a in names])
    found = [plate.name for plate in draw_plates(results) if plate.name.startswith("reliability")]
    assert found == ["reliability-cifar10-batch-1", "reliability-cifar10-batch-2"]
