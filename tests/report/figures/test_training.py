import dataclasses

import numpy as np
import pytest

from calmix.errors import InputError
from calmix.report.figures import mixed_classes, training_curves
from calmix.study.results import Results, read_result, read_results
from tests.fabricate import fabricate


def test_a_curve_is_the_mean_with_the_range_over_seeds_and_members(tmp_path):
    runs = [fabricate(tmp_path, "deep", seed=s, accuracy=a, history=3) for s, a in ((0, 0.8), (1, 0.9))]
    results = read_results(runs)
    accuracy, ece, gap = training_curves(results.groups()).axes
    values = np.array(
        [[100 * e.accuracy for e in r.history if e.member == k] for r in results for k in range(4)]
    )
    line = accuracy.get_lines()[0]
    assert line.get_xdata().tolist() == [1, 2, 3]
    np.testing.assert_allclose(line.get_ydata(), values.mean(0))
    band = accuracy.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(values.min())
    assert band[:, 1].max() == pytest.approx(values.max())
    assert [axes.get_title(loc="left") for axes in (accuracy, ece, gap)] == ["accuracy %", "ECE %", "gap"]


def test_only_epochs_that_every_stream_has_reached_are_drawn(tmp_path):
    result = read_result(fabricate(tmp_path, "deep", history=5))
    behind = [e for e in result.history if e.member == 0 or e.epoch <= 2]
    groups = Results([dataclasses.replace(result, history=behind)]).groups()
    assert training_curves(groups).axes[0].get_lines()[0].get_xdata().tolist() == [1, 2]


def test_no_epochs_are_an_error(tmp_path):
    result = read_result(fabricate(tmp_path))
    with pytest.raises(InputError, match="epochs"):
        training_curves(Results([dataclasses.replace(result, history=[])]).groups())


SHARE = np.array([[0.0, 0.5, 1.0], [0.25, 0.5, 0.5]])
ACCURACY = np.array([0.9, 0.4, 0.6])


def names(panel):
    return [tick.get_text() for tick in panel.get_yticklabels()]


def test_the_hardest_class_is_on_top_and_every_member_has_a_dot():
    panel, beside = mixed_classes(SHARE, ACCURACY, ["easy", "hard", "$medium$"], title="CAMixup").axes
    assert names(panel) == ["hard", r"\$medium\$", "easy"]
    assert panel.get_ylim()[0] > panel.get_ylim()[1]
    dots = [line for line in panel.get_lines() if line.get_marker() == "o"]
    assert [sorted(line.get_xdata()) for line in dots] == [[50, 50], [50, 100], [0, 25]]
    means = [path[0, 0] for path in panel.collections[0].get_segments()]
    assert means == pytest.approx([50, 75, 12.5])
    assert beside.get_lines()[0].get_xdata() == pytest.approx([40, 60, 90])


def test_dots_at_both_ends_are_whole():
    panel, _ = mixed_classes(SHARE, ACCURACY, list("abc")).axes
    low, high = panel.get_xlim()
    assert low <= -2
    assert high >= 102


def test_without_accuracies_the_class_that_is_mixed_most_is_on_top():
    (panel,) = mixed_classes(SHARE, None, list("abc")).axes
    assert names(panel) == ["c", "b", "a"]


def test_a_class_without_test_images_has_no_accuracy():
    _, beside = mixed_classes(SHARE, np.array([0.9, np.nan, 0.6]), list("abc")).axes
    assert beside.get_lines()[0].get_xdata() == pytest.approx([60, 90, np.nan], nan_ok=True)


def test_of_many_classes_the_hardest_and_easiest_are_drawn():
    accuracy = np.linspace(0, 1, 30)
    panel, _ = mixed_classes(np.zeros((2, 30)), accuracy, [str(k) for k in range(30)]).axes
    assert names(panel) == [str(k) for k in (*range(10), *range(20, 30))]
    assert panel.get_ylabel() == "the 10 hardest and 10 easiest of 30 classes"


def test_sizes_that_differ_are_an_error():
    with pytest.raises(InputError, match="accuracy has 2 entries for the 3 classes"):
        mixed_classes(SHARE, ACCURACY[:2], list("abc"))
    with pytest.raises(InputError, match="names has 1"):
        mixed_classes(SHARE, ACCURACY, ["a"])
