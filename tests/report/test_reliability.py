import numpy as np
import pytest
import torch
from scipy import stats

from calmix.errors import InputError
from calmix.predictions import Predictions
from calmix.report.reliability import Curve, reliability_figure
from calmix.runs.influence import TopLabels
from tests.fabricate import constant_predictions, random_predictions

BLUE = "#0072B2"


def curve_of(label, predictions, colour=BLUE, members=False):
    return Curve(label, [TopLabels.of(each) for each in predictions], colour, members)


def thick(axes):
    return [line for line in axes.get_lines() if line.get_linewidth() > 2]


def thin(axes):
    return [line for line in axes.get_lines() if line.get_linewidth() < 0.9]


def test_height_is_the_gap_at_its_confidence_and_the_share_is_below():
    curve = curve_of("none", [constant_predictions(0.8, 0.9)], BLUE)
    top, bottom = reliability_figure({"BE": [curve]}).axes
    (line,) = thick(top)
    assert (line.get_xdata()[0], line.get_ydata()[0]) == (pytest.approx(0.9), pytest.approx(-0.1))
    assert bottom.patches[0].get_data().values.tolist() == [0.0] * 13 + [1.0, 0.0]
    assert top.get_title(loc="left") == "BE"


def test_the_standard_view_is_accuracy_with_the_diagonal():
    curve = curve_of("none", [constant_predictions(0.8, 0.9)], BLUE)
    top, _ = reliability_figure({"": [curve]}, difference=False).axes
    assert thick(top)[0].get_ydata()[0] == pytest.approx(0.8)
    diagonal = top.get_lines()[-1]
    assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    assert top.get_ylim() == (0, 1)


def test_seeds_share_the_bins_and_their_range_is_the_band():
    seeds = [constant_predictions(0.8, 0.9), constant_predictions(0.6, 0.9, size=6000)]
    top, _ = reliability_figure({"": [curve_of("none", seeds, BLUE)]}).axes
    assert thick(top)[0].get_ydata()[0] == pytest.approx((0.8 * 2000 + 0.6 * 6000) / 8000 - 0.9)
    ((low, high),) = [path[:, 1] for path in top.collections[0].get_segments()]
    assert (low, high) == (pytest.approx(-0.3), pytest.approx(-0.1))


def test_the_band_of_one_seed_is_the_exact_interval():
    top, _ = reliability_figure({"": [curve_of("none", [constant_predictions(0.8, 0.9)], BLUE)]}).axes
    ((low, high),) = [path[:, 1] for path in top.collections[0].get_segments()]
    exact = stats.binomtest(1600, 2000).proportion_ci(0.95, "exact")
    assert [low, high] == pytest.approx([exact.low - 0.9, exact.high - 0.9])


def test_members_are_thin_and_only_where_they_are_asked_for():
    predictions = random_predictions(members=3)
    curves = {flag: [curve_of("none", [predictions], BLUE, members=flag)] for flag in (True, False)}
    assert [len(thin(reliability_figure({"": c}).axes[0])) for c in curves.values()] == [3, 0]
    single = [curve_of("none", [random_predictions(members=1)], BLUE, members=True)]
    assert not thin(reliability_figure({"": single}).axes[0])
    alone = thin(reliability_figure({"": curves[True]}).axes[0])[1]
    member = [curve_of("none", [predictions.member(1)], BLUE)]
    (expected,) = thick(reliability_figure({"": member}).axes[0])
    np.testing.assert_allclose(alone.get_xydata(), expected.get_xydata())


def test_bins_with_next_to_no_examples_have_no_point():
    confidence = torch.tensor([0.95] * 997 + [0.6] * 3)
    logits = torch.stack([confidence, 1 - confidence], 1).log()[None]
    predictions = Predictions(logits, torch.zeros(1000, dtype=torch.long))
    (line,) = thick(reliability_figure({"": [curve_of("none", [predictions], BLUE)]}).axes[0])
    assert line.get_xdata().tolist() == pytest.approx([0.95])
    few = Predictions(logits[:, -3:], predictions.labels[-3:])
    (line,) = thick(reliability_figure({"": [curve_of("none", [few], BLUE)]}).axes[0])
    assert line.get_xdata().tolist() == pytest.approx([0.6])  # better than nothing


@pytest.mark.parametrize("difference", [True, False])
def test_no_point_is_outside_and_the_legend_covers_nothing(difference):
    curves = [curve_of(f"sharpness {s}", [random_predictions(s)], BLUE, True) for s in (0.3, 1.0, 3.0)]
    figure = reliability_figure({"one": curves, "two": curves[:1]}, difference=difference, title="cifar10")
    figure.draw_without_rendering()
    for axes in figure.axes[:2]:
        low, high = axes.get_ylim()
        heights = np.concatenate([line.get_ydata() for line in axes.get_lines()])
        bands = np.concatenate([c.get_paths()[0].vertices[:, 1] for c in axes.collections])
        assert len(axes.collections) == (3 if axes is figure.axes[0] else 1)
        assert low <= min(heights.min(), bands.min())
        assert max(heights.max(), bands.max()) <= high
    legend = figure.legends[0].get_window_extent()
    assert not any(legend.overlaps(axes.get_tightbbox()) for axes in figure.axes)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["sharpness 0.3", "sharpness 1.0", "sharpness 3.0", "a member", "95 % interval"]


@pytest.mark.parametrize("panels", [{}, {"BE": []}, {"BE": [curve_of("none", [], BLUE)]}])
def test_nothing_to_draw_is_an_error(panels):
    with pytest.raises(InputError, match=r"nothing to draw|no predictions"):
        reliability_figure(panels)


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (3, 3), (4, 2), (5, 2)])
def test_many_panels_have_two_columns_and_no_empty_axes(count, columns):
    panels = {f"panel {k}": [curve_of("none", [random_predictions()])] for k in range(count)}
    figure = reliability_figure(panels, title="digits")
    figure.draw_without_rendering()
    titled = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in titled] == list(panels)
    assert len(figure.axes) == 2 * count
    assert len({round(axes.get_position().x0, 3) for axes in titled}) == columns
    labelled = [axes for axes in figure.axes if axes.get_ylabel()]
    assert len(labelled) == 2 * -(-count // columns)
