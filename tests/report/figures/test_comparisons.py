import math

import numpy as np
import pytest
from matplotlib.colors import to_hex

from calmix.errors import InputError
from calmix.report.figures import bars, before_and_after, lines
from calmix.report.style import COLOURS
from calmix.study import quantities as q
from calmix.study.results import read_results
from tests.fabricate import fabricate


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """BE without augmentation on three seeds, with Mixup of two coefficients, and DE."""
    out = tmp_path_factory.mktemp("runs")
    runs = [
        fabricate(out, "batch", "none", seed=s, accuracy=a, confidence=0.9)
        for s, a in enumerate((0.79, 0.80, 0.81))
    ]
    runs += [fabricate(out, "batch", "mixup", alpha=a, accuracy=0.9, confidence=0.7) for a in (0.2, 1.0)]
    runs.append(fabricate(out, "deep", "none", accuracy=0.85, confidence=0.87, corrupted=(0.5, 0.7)))
    return read_results(runs)


def heights(axes):
    return [bar.get_height() for bar in axes.patches]


def test_a_bar_is_the_mean_over_seeds_in_the_colour_of_its_augmentation(results):
    error, ece = bars(results.groups(), (q.ERROR, q.ECE)).axes
    assert heights(error) == pytest.approx([20, 10, 10, 15])
    assert heights(ece) == pytest.approx([10, 20, 20, 2], abs=1e-3)
    shades = [to_hex(bar.get_facecolor()).upper() for bar in error.patches]
    assert shades[0] == shades[3] == COLOURS["none"]
    assert shades[1] == COLOURS["mixup"] != shades[2]
    assert error.get_title(loc="left") == "error %"


def test_the_spread_is_the_standard_deviation_and_dots_are_runs(results):
    (error,) = bars(results.groups()[:1], (q.ERROR,)).axes
    ((low, high),) = [path[:, 1] for path in error.collections[0].get_segments()]
    assert (high - low) / 2 == pytest.approx(1)
    dots = next(line for line in error.get_lines() if line.get_marker() == ".")
    assert sorted(dots.get_ydata()) == pytest.approx([19, 20, 21])


def test_ensembles_stand_apart_below_their_name(results):
    error = bars(results.groups(), (q.ERROR,)).axes[0]
    middles = [bar.get_x() + bar.get_width() / 2 for bar in error.patches]
    assert np.diff(middles).argmax() == 2
    assert [tick.get_text() for tick in error.get_xticklabels()] == ["BE", "DE"]
    assert error.get_xticks().tolist() == pytest.approx([middles[1], middles[3]])


def test_diamonds_are_the_members_of_their_panel(results):
    error, ece = bars(results.groups(), (q.ERROR, q.ECE), (None, q.MEMBER_ECE), title="cifar10").axes
    assert not [line for line in error.get_lines() if line.get_marker() == "D"]
    (diamonds,) = (line.get_ydata() for line in ece.get_lines() if line.get_marker() == "D")
    assert list(diamonds) == pytest.approx([10, 20, 20, 2], abs=1e-3)


def test_many_panels_have_several_rows_and_no_empty_axes(results):
    assert len(bars(results.groups(), (q.ERROR, q.ECE, q.GAP, q.NLL, q.DCE)).axes) == 5


def test_a_signed_quantity_reaches_below_0(results):
    (gap,) = bars(results.groups(), (q.GAP,)).axes
    assert heights(gap) == pytest.approx([-10, 20, 20, -2], abs=1e-3)
    assert gap.get_ylim()[0] < -10


def test_groups_without_the_quantity_are_left_out(results):
    (cece,) = bars(results.groups(), (q.CORRUPTED_ECE,)).axes
    assert heights(cece) == pytest.approx([20], abs=1e-3)
    with pytest.raises(InputError, match="cece"):
        bars(results.groups()[:1], (q.CORRUPTED_ECE,))


def test_lines_go_through_the_means_with_their_spread(results):
    series = {
        "BE": {0.5: results.where(augment="mixup"), 0.0: results.where(ensemble="batch", augment="none")},
        "DE": {0.0: results.where(ensemble="deep")},
    }
    error, ece = lines(series, (q.ERROR, q.ECE), xlabel="label smoothing").axes
    first, second = error.containers
    assert first.lines[0].get_xydata().tolist() == [[0.0, pytest.approx(20)], [0.5, pytest.approx(10)]]
    assert second.lines[0].get_xydata().tolist() == [[0.0, pytest.approx(15)]]
    ((low, high), _) = [path[:, 1] for path in first.lines[2][0].get_segments()]
    assert (high - low) / 2 == pytest.approx(1)
    assert error.get_xticks().tolist() == [0.0, 0.5]
    assert ece.get_xlabel() == "label smoothing"
    assert error.get_ylim()[0] == 0


def test_lines_without_results_are_an_error():
    with pytest.raises(InputError, match="series"):
        lines({"BE": {}}, (q.ECE,), xlabel="alpha")


def test_before_is_filled_and_after_is_hollow(results):
    groups = results.groups()
    clean, corrupted = before_and_after(
        groups, ((q.ECE, q.SCALED_NLL), (q.CORRUPTED_ECE, q.SCALED_CORRUPTED_ECE))
    ).axes
    dots = [line for line in clean.get_lines() if line.get_marker() == "o"]
    assert dots[0].get_xydata().tolist() == [[pytest.approx(10, abs=1e-3), 0]]
    assert dots[1].get_markerfacecolor() == "white"
    nll = -0.8 * math.log(0.9) - 0.2 * math.log(0.1 / 3)
    assert dots[1].get_xdata()[0] == pytest.approx(nll, abs=1e-3)
    assert len([line for line in corrupted.get_lines() if line.get_marker() == "o"]) == 2
    assert [tick.get_text() for tick in clean.get_yticklabels()] == [group.title for group in groups]
    assert clean.get_ylim()[0] > clean.get_ylim()[1]  # the first row on top
