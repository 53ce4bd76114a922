"""Influences against leave-one-out, which they equal to first order, and against the bootstrap's spread."""

import numpy as np
import pytest
import torch

from calmix import Predictions, metrics, pool
from calmix.corruptions import CORRUPTIONS, SEVERITIES
from calmix.runs.influence import (
    TopLabels,
    corrupted_influences,
    dce_influence,
    ece_influence,
    read_influences,
    write_influences,
)


def draw_predictions(*, examples=300, members=3, classes=4, sharpness=2.0, seed=0):
    """Members that are surer than they are right."""
    draw = torch.Generator().manual_seed(seed)
    shared = 2 * torch.randn(examples, classes, generator=draw)
    labels = shared.softmax(-1).multinomial(1, generator=draw)[:, 0]
    return Predictions(
        sharpness * (shared + 0.5 * torch.randn(members, examples, classes, generator=draw)), labels
    )


def pooled(metric):
    return lambda p: metric(pool(p.logits.double()), p.labels)


def members_mean(metric):
    return lambda p: np.mean([metric(member.double().softmax(-1), p.labels) for member in p.logits])


NUMBERS = {
    "accuracy": pooled(metrics.accuracy),
    "gap": pooled(metrics.gap),
    "ece": pooled(metrics.ece),
    "member_gap": members_mean(metrics.gap),
    "member_ece": members_mean(metrics.ece),
    "compounding": lambda p: pooled(metrics.ece)(p) - members_mean(metrics.ece)(p),
}


def without(predictions, i):
    rest = torch.arange(len(predictions.labels)) != i
    return Predictions(predictions.logits[:, rest], predictions.labels[rest])


def leave_one_out(number, predictions):
    """(n - 1) (number - number without the example): the jackknife's influence of each example."""
    n = len(predictions.labels)
    whole = number(predictions)
    return np.array([(n - 1) * (whole - number(without(predictions, i))) for i in range(n)])


@pytest.mark.parametrize("name", NUMBERS)
def test_an_influence_is_what_the_number_loses_without_its_example(name):
    predictions = draw_predictions(examples=250, sharpness=4.0)
    influence = TopLabels.of(predictions).influences()[name]
    expected = leave_one_out(NUMBERS[name], predictions)
    assert influence.mean() == pytest.approx(0, abs=1e-12)
    # Sums of absolute values are linear but where a bin's gap changes its sign without an example.
    exact = np.isclose(influence, expected, atol=1e-4)
    assert exact.mean() > 0.95 if "ece" in name or name == "compounding" else exact.all()
    assert influence.std() == pytest.approx(expected.std(), rel=0.1)


def bootstrap_deviation(number, predictions, *, resamples=300, seed=0):
    draw = np.random.default_rng(seed)
    n = len(predictions.labels)
    values = []
    for _ in range(resamples):
        rows = torch.from_numpy(draw.integers(n, size=n))
        values.append(number(Predictions(predictions.logits[:, rows], predictions.labels[rows])))
    return np.std(values)


@pytest.mark.parametrize("name", ["accuracy", "gap", "ece", "dce"])
def test_its_deviation_is_that_of_the_bootstrap(name):
    predictions = draw_predictions(examples=800, members=1, sharpness=3.0)
    influence = TopLabels.of(predictions).influences()[name]
    expected = bootstrap_deviation(pooled(getattr(metrics, name)), predictions)
    assert influence.std() / 800**0.5 == pytest.approx(expected, rel=0.15)


def test_the_difference_of_two_networks_on_the_same_images_is_paired():
    """Both see the same images with noise of their own: together they vary less than either alone."""
    first, second = (draw_predictions(examples=800, members=1, sharpness=s) for s in (2.0, 3.0))
    assert torch.equal(first.labels, second.labels)
    both = Predictions(torch.cat([first.logits, second.logits]), first.labels)

    def difference(p):
        return metrics.gap(p.logits[0].double().softmax(-1), p.labels) - metrics.gap(
            p.logits[1].double().softmax(-1), p.labels
        )

    influences = [TopLabels.of(p).influences()["gap"] for p in (first, second)]
    paired = (influences[0] - influences[1]).std() / 800**0.5
    assert paired == pytest.approx(bootstrap_deviation(difference, both), rel=0.15)
    unpaired = np.hypot(influences[0].std(), influences[1].std()) / 800**0.5
    assert paired < unpaired / 3


def test_the_ece_by_hand():
    """A bin of confidence 0.9, right once in two: over-confident; another of 0.6, always right."""
    confidence, hit = np.array([0.9, 0.9, 0.6, 0.6]), np.array([1.0, 0.0, 1.0, 1.0])
    # -(0.1), -(-0.9), 0.4, 0.4, whose mean is the ECE: 0.4.
    assert ece_influence(confidence, hit) == pytest.approx([-0.5, 0.5, 0.0, 0.0])


def test_where_there_is_no_error_the_debiased_one_has_a_finite_influence():
    influence = dce_influence(np.full(50, 0.5), np.tile([0.0, 1.0], 25))
    assert np.isfinite(influence).all()
    assert influence.mean() == pytest.approx(0, abs=1e-12)


def test_top_labels_come_pool_first():
    predictions = draw_predictions(examples=20)
    top = TopLabels.of(predictions)
    assert top.prediction.shape == top.confidence.shape == (4, 20)
    probs = [pool(predictions.logits.double()), *predictions.logits.double().softmax(-1)]
    for row, each in enumerate(probs):
        assert top.confidence[row] == pytest.approx(each.amax(1).numpy())
        assert (top.prediction[row] == each.argmax(1).numpy()).all()
    assert top.hit[0].mean() == pytest.approx(metrics.accuracy(probs[0], predictions.labels))


def test_a_corrupted_image_counts_with_all_its_versions():
    """Leave one image out of all 75 sets, and the mean of the sets' accuracies loses its influence."""
    labels = torch.arange(30) % 4
    sets = {
        f"{name}-{severity}": Predictions(
            draw_predictions(examples=30, members=2, seed=10 * k + severity).logits, labels
        )
        for k, name in enumerate(CORRUPTIONS)
        for severity in SEVERITIES
    }
    influences = corrupted_influences(sets.__getitem__)

    def mean_accuracy(change):
        return np.mean([pooled(metrics.accuracy)(change(each)) for each in sets.values()])

    for i in (0, 17):
        lost = mean_accuracy(lambda p: p) - mean_accuracy(lambda p, i=i: without(p, i))
        assert influences["ca"][i] == pytest.approx(29 * lost)
    of_each = [TopLabels.of(each).influences()["ece"] for each in sets.values()]
    assert influences["cece"] == pytest.approx(np.mean(of_each, axis=0))


def test_influences_that_cannot_be_used_are_none(tmp_path):
    path, values = tmp_path / "influences.npz", np.array([0.25, -0.5, 0.25])
    assert read_influences(path, 3) is None
    write_influences(path, {"ca": values, "cece": 2 * values})
    assert read_influences(path, 3)["cece"].tolist() == [0.5, -1, 0.5]
    assert read_influences(path, 4) is None
    path.write_bytes(path.read_bytes()[:-30])
    assert read_influences(path, 3) is None
    for cece in ({}, {"cece": np.array([np.inf, 0, 0])}, {"cece": values > 0}):
        write_influences(path, {"ca": values} | cece)
        assert read_influences(path, 3) is None
