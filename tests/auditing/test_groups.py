from types import SimpleNamespace

import numpy as np
import pytest
import torch

from calmix import InputError, Predictions
from calmix.auditing.groups import class_rates, gap_rows, groupings, predicted_classes
from calmix.auditing.summary import summarise
from tests.auditing.ensembles import calibrated_groups
from tests.auditing.simulations import calibrated_pool

FLAGS = {"over-confident", "under-confident", "too high", "too low"}


def top_labels(confidence, hit):
    return SimpleNamespace(confidence=confidence, hit=hit)


def summary_of(predictions):
    return summarise(predictions.logits, predictions.labels)


def test_groups_come_worst_first_with_their_direction():
    size = 1000
    confidence = torch.full((3 * size + 5,), 0.8, dtype=torch.float64)
    hit = torch.zeros(3 * size + 5, dtype=torch.float64)
    hit[:810] = 1  # 81 %
    hit[size : size + 950] = 1  # 95 %: under-confident by 15 points
    hit[2 * size : 2 * size + 500] = 1  # 50 %: over-confident by 30 points
    group = torch.cat([torch.arange(3).repeat_interleave(size), torch.full((5,), 4)])
    names = ["fine", "under", "over", "absent", "few"]
    rows = gap_rows(top_labels(confidence, hit), [("x", group, names)], level=0.95)
    assert [row.name for row in rows] == ["over", "under", "fine", "few"]
    assert [row.direction for row in rows] == ["over-confident", "under-confident", "unclear", "too few"]
    np.testing.assert_allclose([row.gap.value for row in rows], [-0.3, 0.15, 0.01, -0.8])
    assert [row.examples for row in rows] == [size] * 3 + [5]
    np.testing.assert_allclose(rows[0].accuracy, 0.5)
    assert {row.by for row in rows} == {"x"}
    assert rows[0].gap.level == pytest.approx(1 - 0.05 / 3)  # the few are not judged, and cost nothing


def test_among_many_calibrated_groups_one_is_rarely_flagged():
    flagged = 0
    for seed in range(100):
        confidence, hit, group = calibrated_groups(50, 100, seed=seed)
        rows = gap_rows(top_labels(confidence, hit), [("x", group, list("x" * 50))], level=0.95)
        flagged += any(row.direction in FLAGS for row in rows)
    assert flagged <= 12  # 5 expected; uncorrected intervals would flag one nearly always


@pytest.mark.parametrize(("classes", "positives"), [(2, 0.05), (10, None)])
def test_classes_of_calibrated_models_are_rarely_flagged(classes, positives):
    """Also a rare class: conditioned on the true class it would be flagged in every run."""
    flagged = 0
    for seed in range(30):
        predictions = calibrated_pool(1000, classes, seed, positives=positives)
        summary, names = summary_of(predictions), predictions.class_names
        rows = predicted_classes(summary, names, level=0.975) + class_rates(summary, names, level=0.975)
        flagged += any(row.direction in FLAGS for row in rows)
    assert flagged <= 5  # 1.5 expected


def test_class_rates_by_hand():
    probs = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.2, 0.3]]).repeat(500, 1).double()
    labels = torch.tensor([0, 0, 0, 2]).repeat(250)
    predictions = Predictions.from_probs(probs, labels, classes=["a", "b", "c"])
    rows = {
        row.name: row for row in class_rates(summary_of(predictions), predictions.class_names, level=0.95)
    }
    assert rows["a"].mean_probability == pytest.approx(0.6)
    assert rows["a"].rate == 0.75
    assert rows["a"].difference.value == pytest.approx(-0.15)
    assert [rows[name].direction for name in "abc"] == ["too low", "too high", "too low"]
    assert rows["a"].difference.low < -0.15 < rows["a"].difference.high
    # The interval of the mean of p - [y = k], from sums alone.
    difference = probs[:, 0] - (labels == 0).double()
    half = 2.394 * float(difference.std()) / 1000**0.5
    assert rows["a"].difference.high == pytest.approx(-0.15 + half, abs=3e-3)


def test_two_classes_have_one_rate():
    predictions = calibrated_pool(100, 2, 0)
    (row,) = class_rates(summary_of(predictions), ("no", "yes"), level=0.95)
    assert row.name == "yes"


def test_groups_each_and_crossed():
    groups = {"age": np.array(["old", "old", "young", "young"]), "sex": np.array(["f", "m", "f", "f"])}
    predictions = Predictions(torch.randn(4, 3), torch.tensor([0, 1, 2, 0]), groups=groups)
    assert groupings(predictions, "predicted-class") == []
    ((name, group, names),) = groupings(predictions, "age")
    assert (name, group.tolist(), names) == ("age", [0, 0, 1, 1], ["old", "young"])
    tables = groupings(predictions, ["age", "sex"])
    assert [table[0] for table in tables] == ["age", "sex", "age x sex"]
    _, group, names = tables[2]
    assert [names[k] for k in group] == [
        "age=old, sex=f",
        "age=old, sex=m",
        "age=young, sex=f",
        "age=young, sex=f",
    ]
    ((name, group, names),) = groupings(predictions, "true-class")
    assert (name, group.tolist(), list(names)) == ("true-class", [0, 1, 2, 0], ["0", "1", "2"])


def test_unknown_groups_are_refused():
    predictions = Predictions(torch.randn(4, 3), torch.tensor([0, 1, 2, 0]), groups={"age": np.arange(4)})
    with pytest.raises(InputError, match=r"by is 'sex', which is no group .* true-class, age"):
        groupings(predictions, "sex")
    with pytest.raises(InputError, match="by is empty"):
        groupings(predictions, [])
