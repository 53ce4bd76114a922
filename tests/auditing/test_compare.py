import dataclasses
import json

import numpy as np
import pytest
import torch

from calmix import InputError, Predictions, compare, metrics, pool
from calmix.auditing.overlap import KEPT, find_overlap, sketch
from tests.auditing.ensembles import scaled, signals

CLASSES = ("cat", "dog", "emu", "fox")


def test_values_are_those_of_the_metrics():
    a = signals(examples=300)
    b = scaled(a, 0.5)
    result = compare(a, b, resamples=50)
    for name, row in result.metrics.items():
        metric = metrics.SCALARS[name]
        values = [metric(pool(side.logits.double()), side.labels) for side in (a, b)]
        assert [row.a, row.b] == pytest.approx(values)
        assert row.difference.value == pytest.approx(values[1] - values[0])
        assert row.approximate == (name in ("ece", "ace", "sce", "tace"))


def test_swapped_sides_swap_the_result():
    a, b = signals(examples=300), scaled(signals(examples=300), 2)
    one, other = compare(a, b, resamples=100), compare(b, a, resamples=100)
    for name, row in one.metrics.items():
        mirrored = other.metrics[name]
        assert row.difference.low == pytest.approx(-mirrored.difference.high, abs=1e-12)
        assert {row.better, mirrored.better} in ({"a", "b"}, {"unclear"})


def test_the_same_predictions_do_not_differ():
    a = signals(examples=200)
    result = compare(a, a, resamples=50)
    for row in (*result.metrics.values(), *result.classes):
        assert row.better == "unclear"
        assert row.difference.low == row.difference.high == 0


def test_members_in_another_order_do_not_differ():
    a = signals(examples=200)
    result = compare(a, dataclasses.replace(a, logits=a.logits.flip(0)), resamples=50)
    rows = (*result.metrics.values(), *result.classes)
    assert any(row.difference.low > 0 or row.difference.high < 0 for row in rows)  # by the order of sums
    assert {row.better for row in rows} == {"unclear"}


def test_intervals_of_paired_means_are_those_of_the_differences():
    a, b = signals(members=1, examples=2000), signals(members=1, examples=2000)
    noise = torch.randn(b.logits.shape, generator=torch.Generator().manual_seed(1))
    b = dataclasses.replace(b, logits=b.logits + 0.1 * noise)
    row = compare(a, b, resamples=1000).metrics["nll"]
    losses = [-pool(side.logits.double()).gather(1, side.labels[:, None]).log()[:, 0] for side in (a, b)]
    half = 1.96 * float((losses[1] - losses[0]).std()) / 2000**0.5
    assert row.difference.high - row.difference.low == pytest.approx(2 * half, rel=0.1)
    unpaired = compare(a, b, paired=False, resamples=1000).metrics["nll"]
    independent = 1.96 * (float(losses[0].var() + losses[1].var()) / 2000) ** 0.5
    assert unpaired.difference.high - unpaired.difference.low == pytest.approx(2 * independent, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_intervals_cover(paired):
    """Equal models: 95 % of the intervals hold 0, within three simulation errors."""
    covered = dict.fromkeys(("accuracy", "gap", "nll", "brier"), 0)
    runs = 200
    for run in range(runs):
        a = signals(members=1, examples=400, seed=2 * run)
        b = signals(members=1, examples=400, seed=2 * run + 1)
        if paired:
            noise = torch.randn(a.logits.shape, generator=torch.Generator().manual_seed(run))
            a, b = (dataclasses.replace(a, logits=a.logits + s * noise) for s in (0.5, -0.5))
        result = compare(a, b, paired=paired, resamples=200, seed=run)
        for name in covered:
            interval = result.metrics[name].difference
            covered[name] += interval.low <= 0 <= interval.high
    for name, count in covered.items():
        assert count / runs >= 0.95 - 3 * 0.0154 - 0.01, name


def grouped(logits, labels, **fields):
    age = np.where(np.arange(len(labels)) % 2, "old", "young")
    return Predictions(logits, labels, groups={"age": age}, **fields)


def test_groups_and_classes_that_gain():
    a = signals(members=1, examples=2000)
    logits = a.logits.clone()
    logits[:, 1::2] *= 4  # b is too sure of the old
    result = compare(grouped(a.logits, a.labels), grouped(logits, a.labels), resamples=50)
    rows = {row.name: row for row in result.groups["age"]}
    assert (rows["old"].better, rows["young"].better) == ("a", "unclear")
    assert rows["young"].difference.value == 0
    assert rows["old"].examples == 1000
    assert [row.examples for row in sorted(result.classes, key=lambda r: r.name)] == torch.bincount(
        a.labels
    ).tolist()


def test_groups_of_few_examples_are_not_judged():
    a = signals(members=1, examples=40)
    result = compare(grouped(a.logits, a.labels), grouped(3 * a.logits, a.labels), resamples=50)
    assert {row.better for row in result.groups["age"]} == {"unclear"}
    assert all(np.isnan(row.difference.low) for row in result.groups["age"])
    assert "too few examples" in str(result)


def test_by_id():
    a = signals(members=1, examples=100)
    a = Predictions(a.logits, a.labels, ids=np.arange(100))
    shuffled = a.take(torch.randperm(90, generator=torch.Generator().manual_seed(0)) + 10)
    result = compare(a, shuffled, by_id=True, resamples=50)
    assert result.examples == (90, 90)
    assert result.metrics["nll"].difference.value == 0
    assert "10 examples are in one of the two only" in result.notes[0]
    with pytest.raises(InputError, match="by_id=True"):
        compare(a.take(slice(10, 100)), shuffled)


def test_classes_in_another_order_are_matched():
    drawn = signals(members=1, examples=100)
    a = Predictions(drawn.logits, drawn.labels, classes=CLASSES)
    order = [2, 0, 3, 1]
    names = [CLASSES[k] for k in order]
    labels = [CLASSES[k] for k in drawn.labels]
    b = Predictions(drawn.logits[..., order], labels, classes=names)
    assert compare(a, b, resamples=50).metrics["brier"].difference.value == 0
    with pytest.raises(InputError, match="'cat', which b has not"):
        compare(a, Predictions(drawn.logits, drawn.labels, classes=["gnu", *CLASSES[1:]]))


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda p: Predictions(p.logits), {}, "b has no labels"),
        (lambda p: p.take(slice(0, 50)), {}, "a has 100 examples, b 50"),
        (lambda p: Predictions(p.logits, p.labels.flip(0)), {}, "differ in the label"),
        (lambda p: Predictions(p.logits[..., :3], p.labels % 3), {}, "4 classes, b 3"),
        (lambda p: p, {"by_id": True}, "no ids"),
        (lambda p: p, {"by_id": True, "paired": False}, "different ones"),
        (lambda p: p, {"level": float("nan")}, "level is nan"),
        (lambda p: p, {"resamples": 1}, "resamples is 1"),
        (lambda p: p, {"names": ("a",)}, "names has 1"),
    ],
)
def test_what_cannot_be_compared(change, options, message):
    a = signals(members=1, examples=100)
    with pytest.raises(InputError, match=message):
        compare(a, change(a), **options)


def test_ids_must_be_unique_and_shared():
    a = signals(members=1, examples=4)
    twice = Predictions(a.logits, a.labels, ids=[1, 1, 2, 3])
    with pytest.raises(InputError, match="the id '1' twice"):
        compare(twice, twice, by_id=True)
    one, other = (Predictions(a.logits, a.labels, ids=np.arange(4) + s) for s in (0, 10))
    with pytest.raises(InputError, match="share no id"):
        compare(one, other, by_id=True)


def test_json_and_infinite_nll():
    a = Predictions(torch.tensor([[[0.0, 1.0], [2.0, 0.0], [0.0, 1.5]]]), [1, 0, 1])
    b = Predictions(torch.tensor([[[0.0, -torch.inf], [2.0, 0.0], [0.0, 1.5]]]), [1, 0, 1])
    result = compare(a, b, resamples=20)
    numbers = json.loads(result.to_json(), parse_constant=pytest.fail)
    assert numbers["metrics"]["nll"]["difference"] is None
    assert numbers["version"] == 1
    assert any("NLL is infinite" in note for note in numbers["notes"])
    assert "b - a" in str(result)


def test_overlap_is_a_share_of_examples():
    whole = signals(examples=6000)
    assert find_overlap(sketch(whole), whole).rows == 1
    kept = sketch(whole.take(slice(0, 5000)))
    assert len(kept["rows"]) == KEPT
    assert find_overlap(kept, whole).rows == pytest.approx(5 / 6, abs=0.03)
    assert find_overlap(kept, signals(examples=6000, seed=5)).text is None
    repeated = Predictions(torch.zeros(1, 50, 2) + torch.tensor([1.0, 2.0]))
    assert find_overlap(sketch(repeated), repeated).rows is None  # equal rows prove nothing
