import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.colors import to_hex
from scipy import stats

import calmix
from calmix.auditing.reliability import reliability_bins
from calmix.errors import InputError
from calmix.predictions import Predictions
from calmix.report import diagram as module
from calmix.report.diagram import Diagram, diagram_figure, diagram_of, draw_diagram, isotonic_corners
from calmix.report.style import BLUE, VERMILION
from tests.auditing.ensembles import signals
from tests.auditing.simulations import shifted
from tests.fabricate import constant_predictions, random_predictions


@pytest.fixture
def axes():
    _, axes = pyplot.subplots()
    yield axes
    pyplot.close("all")


def marks(axes):
    return [line for line in axes.get_lines() if line.get_marker() == "o"]


def lines(axes, width):
    return [line for line in axes.get_lines() if line.get_linewidth() == width and line.get_marker() != "o"]


def test_dots_bars_and_band_are_those_of_the_bins(axes):
    draw_diagram(axes, diagram_of(constant_predictions(0.8, 0.9)))
    (dot,) = marks(axes)
    assert dot.get_xydata().ravel() == pytest.approx([0.9, 0.8])
    band, bar = (collection.get_segments()[0] for collection in axes.collections)
    exact = stats.binomtest(1600, 2000).proportion_ci(0.95, "exact")
    assert bar[:, 1] == pytest.approx([exact.low, exact.high])
    binomial = stats.binom(2000, 0.9).ppf([0.025, 0.975]) / 2000
    assert band[:, 1] == pytest.approx(binomial, abs=2e-3)
    assert band[:, 0] == pytest.approx([0.9, 0.9])


def test_bins_with_few_examples_fade_and_are_explained(axes):
    confidence = torch.tensor([0.95] * 500 + [0.6] * 3, dtype=torch.float64)
    diagram = Diagram(reliability_bins(confidence, torch.ones_like(confidence)))
    draw_diagram(axes, diagram)
    faint, clear = sorted(marks(axes), key=lambda line: line.get_alpha())
    assert faint.get_alpha() < 0.5 < clear.get_alpha()
    assert faint.get_xdata() == pytest.approx([0.6])
    labels = [handle.get_label() for handle in module.diagram_handles([diagram])]
    assert "below 30 examples" in labels


def test_the_isotonic_curve_is_scikit_learns():
    from sklearn.isotonic import IsotonicRegression

    draw = np.random.default_rng(0)
    confidence = draw.choice(np.linspace(0.3, 1, 40), 500)
    hit = (draw.random(500) < confidence**2).astype(float)
    corners = isotonic_corners(confidence, hit)
    grid = np.unique(confidence)
    expected = IsotonicRegression().fit(confidence, hit).predict(grid)
    np.testing.assert_allclose(np.interp(grid, *corners.T), expected, atol=1e-12)
    assert len(corners) < len(grid)


def test_members_are_thin_and_right(axes):
    predictions = random_predictions(members=3)
    draw_diagram(axes, diagram_of(predictions))
    members = lines(axes, 0.7)
    assert len(members) == 3
    alone = diagram_of(predictions.member(1)).bins
    np.testing.assert_allclose(members[1].get_xdata(), alone.confidence)
    np.testing.assert_allclose(members[1].get_ydata(), alone.accuracy)
    assert diagram_of(predictions, members=False).members is None
    assert diagram_of(predictions.member(0)).members is None


def test_blocks_do_not_change_the_diagram(monkeypatch):
    predictions = random_predictions(members=2, size=500)
    whole = diagram_of(predictions)
    monkeypatch.setattr(module, "BLOCK", 2 * 10 * 7)
    parts = diagram_of(predictions)
    np.testing.assert_array_equal(whole.members, parts.members)
    np.testing.assert_array_equal(whole.corners, parts.corners)
    assert whole.bins.rows() == parts.bins.rows()


def test_the_probability_of_the_second_class_shows_what_confidence_hides():
    predictions = shifted(4000, 0.1, 0)
    top, positive = (diagram_of(predictions, positive=flag).bins for flag in (False, True))
    outside = [
        ((b.accuracy > b.null_high) | (b.accuracy < b.null_low)).double().mean() for b in (top, positive)
    ]
    assert outside[0] < 0.3
    assert outside[1] > 0.8
    with pytest.raises(InputError, match="two classes, and the predictions have 10"):
        diagram_of(random_predictions(), positive=True)


def test_plot_reliability_draws_on_axes_or_on_a_figure_of_its_own():
    predictions = signals(members=4, examples=500)
    _, (_, mine) = pyplot.subplots(1, 2)
    assert calmix.plot_reliability(predictions, mine, True) is mine
    assert len(lines(mine, 0.7)) == 4
    assert [to_hex(line.get_color()).upper() for line in lines(mine, 1.6)] == [VERMILION]
    new = calmix.plot_reliability(predictions, members=False)
    assert new.figure is pyplot.gcf()
    assert not lines(new, 0.7)
    new.figure.draw_without_rendering()
    assert new.get_legend().get_window_extent().y0 >= new.get_window_extent().y1 - 1
    positive = calmix.plot_reliability(shifted(300, 0.0, 0), positive=True)
    assert (positive.get_xlabel(), positive.get_ylabel()) == ("P(y = 1)", "rate of y = 1")
    pyplot.close("all")


def test_predictions_without_labels_are_refused():
    with pytest.raises(InputError, match="no labels"):
        calmix.plot_reliability(Predictions(torch.randn(20, 3)))


def test_the_figure_fits_a_phone_and_its_legend_covers_nothing():
    drawing = diagram_figure(diagram_of(signals(members=4, examples=400)), colour=BLUE)
    assert 72 * drawing.get_figwidth() <= 370
    drawing.draw_without_rendering()
    legend = drawing.legends[0].get_window_extent()
    assert not any(legend.overlaps(axes.get_tightbbox()) for axes in drawing.axes)
    assert legend.x1 <= drawing.bbox.x1
