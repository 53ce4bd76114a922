"""Figures show the numbers they are given, at the right places and in the right colours."""

import json

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from calmix.paper import figures
from calmix.paper import quantities as q
from calmix.paper.results import compact_svg
from calmix.paper.study import Study
from calmix.paper.toy import CLOSE, REACH, Surface, surface
from calmix.report.style import colour
from tests.paper.fabricate import fabricate
from tests.scenarios import trained

MIXED = [[[0, 0, 1, 1], [0, 0, 0, 1]]] * 2 + [[[0, 0, 0, 1], [0, 0, 0, 1]]] * 2  # (epochs, members, classes)


@pytest.fixture
def study(tmp_path):
    runs = [
        fabricate(tmp_path, "batch", "none", accuracy=0.8, confidence=0.9, corrupted=(0.5, 0.7)),
        fabricate(tmp_path, "batch", "mixup", accuracy=0.9, confidence=0.7, corrupted=(0.6, 0.6)),
        fabricate(tmp_path, "deep", "none", accuracy=0.85, confidence=0.87),
        fabricate(tmp_path, "batch", "label-smoothing-0.2", accuracy=0.8, confidence=0.5),
        fabricate(tmp_path, "batch", "camixup", accuracy=0.8, mixed=MIXED),
    ]
    return Study.of(runs, "cifar10")


def test_bars_have_the_height_and_colour_of_their_method(study):
    methods = (("batch", "none"), ("batch", "mixup"), ("deep", "none"), ("deep", "mixup"))
    error, ece = figures.bars(study, methods, (q.ERROR, q.ECE)).axes
    assert [bar.get_height() for bar in error.patches] == pytest.approx([20, 10, 15])
    assert [bar.get_height() for bar in ece.patches] == pytest.approx([10, 20, 2], abs=1e-3)
    shades = [to_hex(bar.get_facecolor()).upper() for bar in error.patches]
    assert shades == [colour("none"), colour("mixup"), colour("none")]
    left, right, other = (bar.get_x() + bar.get_width() / 2 for bar in error.patches)
    assert -0.5 < left < 0 < right < 0.5 < other < 1


def test_reliability_is_the_gap_at_its_confidence(study):
    figure = figures.reliability(study, [("BE", [("batch", "none"), ("batch", "mixup")])])
    none, mixup = figure.axes[0].get_lines()[:2]
    assert (none.get_xdata()[0], none.get_ydata()[0]) == (pytest.approx(0.9), pytest.approx(-0.1))
    assert (mixup.get_xdata()[0], mixup.get_ydata()[0]) == (pytest.approx(0.7), pytest.approx(0.2))
    low, high = figure.axes[0].get_ylim()
    assert low == -high


def test_smoothing_starts_at_none(study):
    ece = figures.smoothing(study, (0, 0.1, 0.2)).axes[0]
    line = ece.containers[0].lines[0]
    assert list(line.get_xdata()) == [0, 0.2]
    assert list(line.get_ydata()) == pytest.approx([10, 30], abs=1e-3)


def test_counts_put_the_hardest_class_on_top_and_show_every_member(study):
    panel, beside = figures.counts(study, ("batch", "camixup")).axes
    assert panel.get_yticklabels()[0].get_text() == "3"
    top, bottom = panel.get_ylim()[1], panel.get_ylim()[0]
    assert top < bottom
    dots = [line for line in panel.get_lines() if line.get_marker() == "o"]
    assert sorted(dots[0].get_xdata()) == [75, 75]  # of four epochs: not in the first
    second = next(d for d, tick in zip(dots, panel.get_yticklabels(), strict=True) if tick.get_text() == "2")
    assert sorted(second.get_xdata()) == [0, 50]
    assert beside.patches[0].get_width() == pytest.approx(20)  # 200 of the last 500 images of 2,000


def test_of_many_classes_the_hardest_and_easiest_are_drawn(study, monkeypatch):
    monkeypatch.setattr(figures, "MANY_CLASSES", 2)
    panel, _ = figures.counts(study, ("batch", "camixup")).axes
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["3", "2"]
    assert panel.get_ylabel() == "the 1 hardest and the 1 easiest of 4 classes"


def test_boxes_stand_at_their_severity_and_nothing_is_cut_off(study):
    figure = figures.boxes(study, ("batch", "deep"), ("none", "mixup"))
    error, _, ece, _ = figure.axes
    assert len(error.patches) == 10
    assert error.get_ylim()[1] > 50 > 40
    assert ece.get_ylim()[0] == 0
    clean = [line.get_ydata()[0] for line in error.get_lines() if line.get_marker() == "o"]
    assert clean == pytest.approx([20, 10])


def test_boxes_are_over_the_benchmarks_types_alone(tmp_path):
    run = fabricate(tmp_path, "deep", "none", corrupted=(0.5, 0.6))
    summary = json.loads(run.summary.read_text())
    row = summary["corrupted"]["contrast"]["1"]
    summary["corrupted"]["spatter"] = {"1": row | {"pool": row["pool"] | {"accuracy": 0.0}}}
    del summary["corrupted"]["fog"]["3"]
    run.summary.write_text(json.dumps(summary))
    study = Study.of([run], "cifar10")
    error = figures.boxes(study, ("deep",), ("none",)).axes[0]
    assert len(error.patches) == 5
    assert error.get_ylim()[1] < 100


def test_before_is_filled_and_after_hollow(study):
    clean, corrupted = figures.before_and_after(study, [("batch", "none"), ("deep", "none")]).axes
    filled = [line for line in clean.get_lines() if line.get_marker() == "o" and len(line.get_xdata())]
    assert filled[0].get_xdata()[0] == pytest.approx(10, abs=1e-3)
    assert filled[1].get_markerfacecolor() == "white"
    assert len([line for line in corrupted.get_lines() if len(line.get_xdata()) == 1]) == 2


def test_surfaces_share_one_scale_and_the_first_row_is_the_bottom(tmp_path):
    from calmix.evaluate import evaluate
    from calmix.paper.methods import method
    from calmix.progress import Silence

    run = trained(method("clusters", "single", "mixup", scale="smoke"), tmp_path)
    evaluate(run, listener=Silence())
    study = Study.of([run], "clusters")
    figure = figures.toy(study, [("single", "mixup"), ("deep", "none")])
    (image,) = [image for axes in figure.axes[:3] for image in axes.images]
    assert image.get_clim() == (0.2, 1)
    assert image.get_extent() == [-REACH, REACH, -REACH, REACH]
    made = surface(run)
    # Distances are known: the first cluster, of radius 0.2, is at the top, (0, 3).
    row, column = np.unravel_index(int(made.distance.argmin()), made.distance.shape)
    assert (row, column) == (80, 50)
    assert float(made.distance[80, 50]) < 0.01


def test_shares_of_a_surface():
    distance = torch.tensor([[0.0, CLOSE + 1], [CLOSE + 1, CLOSE + 1]])
    made = Surface(torch.tensor([[0.95, 0.95], [0.5, 0.5]]), distance)
    assert (made.confident, made.confident_far_away) == (0.5, pytest.approx(1 / 3))


def test_a_compact_svg_is_small_and_keeps_its_letters(study):
    figure = figures.smoothing(study, (0, 0.2))
    text = compact_svg(figure).decode()
    assert ">label smoothing</text>" in text
    assert "<metadata>" not in text
    assert len(text) < 25_000
    assert compact_svg(figure).decode() == text
