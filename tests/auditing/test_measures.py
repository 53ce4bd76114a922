import functools
import math

import pytest
import torch

from calmix import metrics
from calmix.auditing import measures as module
from calmix.auditing.measures import MEASURES, dce_interval, measure
from calmix.auditing.summary import summarise
from calmix.predictions import Predictions
from tests.auditing.ensembles import calibrated_groups
from tests.auditing.simulations import calibrated_pool

NULLS = ("ece", "ace", "sce", "tace", "skce")
INTERVALS = ("accuracy", "gap", "nll", "brier", "dce")


def measured(predictions, resamples=50):
    summary = summarise(predictions.logits, predictions.labels)
    estimates, notes = measure(summary, level=0.95, resamples=resamples, seed=0)
    return summary.probs, predictions.labels, estimates, notes


@pytest.mark.parametrize("classes", [2, 4])
def test_every_value_is_the_metric_of_the_pool(classes):
    predictions = calibrated_pool(300, classes, 0)
    probs, labels, estimates, notes = measured(predictions)
    assert list(estimates) == list(MEASURES)
    for name in (*NULLS, *INTERVALS):
        expected = getattr(metrics, name)(probs, labels)
        assert estimates[name].value == pytest.approx(expected, abs=1e-12), name
    assert estimates["smooth_ece"].value == pytest.approx(metrics.smooth_ece(probs, labels), abs=1e-9)
    parts = metrics.brier_parts(probs, labels)
    for name, value in vars(parts).items():
        assert estimates[f"brier_{name}"].value == pytest.approx(value, abs=1e-12)
    split = metrics.refinement(probs, labels)
    assert estimates["nll_refinement"].value == pytest.approx(split.refinement)
    assert estimates["nll_calibration"].value == pytest.approx(split.calibration)
    entropies = metrics.uncertainty(predictions.logits)
    for name, value in vars(entropies).items():
        assert estimates[f"{name}_uncertainty"].value == pytest.approx(float(value.mean()))
    risk = metrics.selective(probs, labels)
    assert estimates["aurc"].value == pytest.approx(risk.aurc)
    assert estimates["eaurc"].value == pytest.approx(risk.eaurc)
    assert notes == ()


def test_what_stands_beside_a_value():
    _, _, estimates, _ = measured(calibrated_pool(200, 3, 0))
    for name, estimate in estimates.items():
        assert (estimate.interval is not None) == (name in INTERVALS)
        assert (estimate.p_value is not None) == (name in NULLS)
        if name in NULLS:
            assert 0 < estimate.p_value <= 1
            assert estimate.null_mean < estimate.null_95
        if name in INTERVALS:
            assert estimate.interval.low <= estimate.value <= estimate.interval.high


def test_each_has_a_plain_explanation():
    for name, each in MEASURES.items():
        assert each.name == name
        assert each.title
        assert 10 < len(each.explanation) < 80


def test_the_debiased_error_is_covered():
    """Of bins of equal mass whose accuracy is off by 10 points; conservative near 0."""
    covered = zero = 0
    for seed in range(100):
        confidence, _, _ = calibrated_groups(1, 600, seed=seed)
        draw = torch.Generator().manual_seed(1000 + seed)
        hit = torch.bernoulli((confidence - 0.1).clamp(0, 1), generator=draw).long()
        interval = dce_interval(confidence, hit, level=0.95, seed=seed)
        covered += interval.low <= 0.1 <= interval.high
        hit = torch.bernoulli(confidence, generator=draw).long()
        interval = dce_interval(confidence, hit, level=0.95, seed=seed)
        zero += interval.low == 0
    assert covered >= 89
    assert zero >= 95


def test_infinite_losses_are_noted():
    predictions = calibrated_pool(100, 3, 0, members=1)
    predictions.logits[0, 0, predictions.labels[0]] = -torch.inf
    _, _, estimates, notes = measured(predictions)
    assert estimates["nll"].value == math.inf
    assert any("infinite" in note for note in notes)


def test_of_many_examples_a_part_is_read(monkeypatch):
    """A file sorted by class does not fool the kernel error, whose pairs are neighbours."""
    monkeypatch.setattr(module, "KERNEL_VALUES", 0)
    monkeypatch.setattr(module, "LINEAR_VALUES", 0)
    monkeypatch.setattr(module, "REFINEMENT_VALUES", 0)
    predictions = calibrated_pool(2000, 3, 0, members=1)
    order = predictions.labels.argsort()
    ordered = Predictions(predictions.logits[:, order], predictions.labels[order])
    _, _, estimates, notes = measured(ordered, resamples=100)
    assert estimates["skce"].p_value > 0.02
    assert any("linear estimator of 1,000 examples" in note for note in notes)
    assert any("Refinement is that of 1,000 examples" in note for note in notes)


def test_p_values_are_those_of_the_null():
    predictions = calibrated_pool(200, 3, 0)
    probs, labels, estimates, _ = measured(predictions, resamples=99)
    result = metrics.null(metrics.sce, probs, labels, resamples=99)
    assert estimates["sce"].null_mean == pytest.approx(result.mean)
    kernel = functools.partial(metrics.skce)
    result = metrics.null(kernel, probs, labels, resamples=99)
    assert estimates["skce"].p_value == result.p_value
