import dataclasses

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from calmix.corruptions import CORRUPTIONS
from calmix.errors import InputError
from calmix.report.figures import severity_boxes
from calmix.report.figures.corruption import _draw_boxes
from calmix.study.results import Results, read_result, read_results
from tests.fabricate import fabricate


def by_severity(name, severity):
    return round(0.8 - 0.1 * severity + 0.02 * (CORRUPTIONS.index(name) % 3), 2), 0.8


def medians(axes):
    """(severity, height) of the lines in the boxes, the rest of the figure aside."""
    lines = [some for some in axes.collections if isinstance(some, LineCollection) and is_white(some)]
    flat = [segment for some in lines for segment in some.get_segments()]
    return [(segment[:, 0].mean(), segment[0, 1]) for segment in flat]


def is_white(lines):
    return to_hex(lines.get_colors()[0]) == "#ffffff"


def test_boxes_stand_at_their_severity_beside_the_clean_test_set(tmp_path):
    runs = [fabricate(tmp_path, "batch", a, accuracy=0.9, corrupted=by_severity) for a in ("none", "mixup")]
    runs.append(fabricate(tmp_path, "deep", "none", accuracy=0.95, corrupted=(0.5, 0.7)))
    figure = severity_boxes(read_results(runs).groups(), title="cifar10")
    error, deep, ece, _ = figure.axes
    assert [axes.get_title(loc="left") for axes in (error, deep)] == ["BatchEnsemble", "deep ensemble"]
    found = medians(error)
    assert [round(x) for x, _ in found] == [1, 2, 3, 4, 5] * 2
    assert [y for _, y in found[:5]] == pytest.approx([28, 38, 48, 58, 68])
    clean = [line.get_ydata()[0] for line in error.get_lines() if line.get_marker() == "o"]
    assert clean == pytest.approx([10, 10])
    assert [y for _, y in medians(deep)] == pytest.approx([50] * 5)
    assert ece.get_ylim()[0] == 0


def test_boxes_are_over_the_benchmarks_types_alone(tmp_path):
    result = read_result(fabricate(tmp_path, "deep", corrupted=(0.5, 0.6)))
    scores = result.summary.corrupted["contrast"][1]
    worst = dataclasses.replace(scores, pool=dataclasses.replace(scores.pool, accuracy=0.0))
    corrupted = {**result.summary.corrupted, "spatter": {1: worst}, "fog": {}}
    summary = dataclasses.replace(result.summary, corrupted=corrupted)
    groups = Results([dataclasses.replace(result, summary=summary)]).groups()
    error = severity_boxes(groups).axes[0]
    drawn = [path.vertices[:, 1] for some in error.collections for path in some.get_paths()]
    heights = np.concatenate([*drawn, *(line.get_ydata() for line in error.get_lines())])
    assert heights.max() == pytest.approx(50)
    assert len(medians(error)) == 5


def test_groups_without_corrupted_test_sets_are_an_error(tmp_path):
    with pytest.raises(InputError, match="corruptions=True"):
        severity_boxes(read_results([fabricate(tmp_path)]).groups())


def test_boxes_are_those_of_matplotlib():
    values = {1.0: [1.0, 2.0, 3.0, 4.0, 20.0], 2.5: [5.0, 6.0, 9.0, 9.5]}
    ours, theirs = Figure().subplots(1, 2)
    _draw_boxes(ours, values, 0.4, "#0072B2")
    theirs.boxplot(list(values.values()), positions=list(values), widths=0.34)
    ends = sorted(line.get_xydata().tolist() for line in theirs.lines if 0 < len(line.get_xdata()) < 3)
    segments = [s for c in ours.collections if isinstance(c, LineCollection) for s in c.get_segments()]
    points = [line.get_xydata() for line in ours.get_lines()]
    np.testing.assert_allclose(
        sorted(s.tolist() for s in segments if len(s) == 2), [e for e in ends if len(e) == 2]
    )
    np.testing.assert_allclose(points, [[[1.0, 20.0]]])
    (boxes,) = [c for c in ours.collections if isinstance(c, PolyCollection)]
    outlines = [line.get_xydata() for line in theirs.lines if len(line.get_xdata()) == 5]
    for ours_box, box in zip(boxes.get_paths(), outlines, strict=True):
        np.testing.assert_allclose(ours_box.vertices[:4], box[:4])
