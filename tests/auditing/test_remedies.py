import warnings

import pytest
import torch

from calmix import metrics, pool
from calmix.auditing import remedies as module
from calmix.auditing.advice import advise, advise_camixup
from calmix.auditing.remedies import NOTHING, Remedy, candidates, compare_remedies, recommend
from calmix.calibrate import fit_temperature
from calmix.metrics import Interval
from calmix.predictions import Predictions
from tests.auditing.ensembles import signals, single


def compare(predictions, verdict="inconclusive", **options):
    return compare_remedies(predictions.logits, predictions.labels, verdict=verdict, **options)


@pytest.fixture(scope="module")
def sharp():
    """One over-confident model, and its remedies."""
    predictions = single(sharpness=2.0, examples=600)
    return predictions, compare(predictions)


def test_every_calibrator_that_applies():
    assert [c.name for c in candidates(1, 5)] == ["temperature", "vector", "isotonic"]
    assert [c.name for c in candidates(1, 2)] == ["temperature", "beta", "vector", "isotonic"]
    assert [c.name for c in candidates(4, 5)] == [
        "temperature after pooling",
        "temperature before pooling",
        "temperature of each member",
        "joint",
        "vector",
        "isotonic",
    ]


def test_many_classes_have_no_isotonic_curves():
    assert [c.name for c in candidates(1, 201)] == ["temperature", "vector"]


def test_the_simplest_within_noise_is_recommended(sharp):
    predictions, comparison = sharp
    assert [r.method for r in comparison.remedies] == [NOTHING, "temperature", "vector", "isotonic"]
    assert comparison.recommended.method == "temperature"
    assert sum(r.recommended for r in comparison.remedies) == 1
    assert comparison.temperature == pytest.approx(2.0, rel=0.15)
    assert comparison.ece_after_temperature == comparison.remedies[1].ece < 0.5 * comparison.remedies[0].ece
    nothing = comparison.remedies[0]
    assert nothing.nll == pytest.approx(metrics.nll(pool(predictions.logits.double()), predictions.labels))
    assert nothing.difference.value == 0
    probs, labels = comparison.held_out, predictions.labels[comparison.rows]
    assert metrics.nll(probs, labels) == pytest.approx(comparison.recommended.nll)


def test_calibrated_models_are_left_alone():
    assert compare(single(examples=400)).recommended.method == NOTHING
    # Whatever a calibrator gains: the verdict says that nothing is wrong.
    assert compare(single(sharpness=2.0, examples=300), "calibrated").recommended.method == NOTHING


def test_no_example_is_judged_by_a_fit_that_saw_it():
    predictions = single(sharpness=2.0, examples=60)
    changed = predictions.labels.clone()
    changed[7] = (changed[7] + 1) % 4
    options = {"limit": 100, "option": candidates(1, 4)[0]}
    held_out, other = (
        module._held_out(predictions.logits, labels, **options) for labels in (predictions.labels, changed)
    )
    same = (held_out == other).all(1)
    assert same[7]
    assert int(same.sum()) == 20  # its fold alone


def test_of_many_examples_a_part_is_compared(monkeypatch):
    monkeypatch.setattr(module, "LEAST_HELD_OUT", 300)
    monkeypatch.setattr(module, "HELD_OUT_VALUES", 0)
    monkeypatch.setattr(module, "FIT_VALUES", 0)
    monkeypatch.setattr(module, "LEAST_FIT", 100)
    comparison = compare(single(sharpness=2.0, examples=1000))
    assert len(comparison.rows) == len(comparison.held_out) == 300
    assert any("300 examples" in note for note in comparison.notes)
    assert any("part of the examples" in note for note in comparison.notes)


def losses(**means):
    """NLL of 400 examples around these means, and a Brier score of the same."""
    noise = torch.randn(400, generator=torch.Generator().manual_seed(0)).double()
    return {name: (noise + mean, noise + mean) for name, mean in means.items()}


def remedy(name, difference, half, of="nll"):
    return Remedy(name, 1.0, 1.0, 0.1, Interval(difference, difference - half, difference + half), of)


def choice(remedies, values, verdict="inconclusive"):
    rows = (remedy("nothing", 0, 0), *remedies)
    marked = recommend(rows, values, verdict, level=0.95)
    (chosen,) = (row.method for row in marked if row.recommended)
    return chosen


def test_recommendations_by_hand():
    values = losses(nothing=0, simple=-0.1, flexible=-0.3)
    both = [remedy("simple", -0.1, 0.01), remedy("flexible", -0.3, 0.01)]
    assert choice(both, values) == "flexible"  # surely better than the simple one
    assert choice(both, values, "calibrated") == "nothing"
    equal = losses(nothing=0, simple=-0.3, flexible=-0.3)
    assert choice([remedy("simple", -0.3, 0.01), remedy("flexible", -0.3, 0.01)], equal) == "simple"
    unsure = [remedy("simple", -0.1, 0.2), remedy("flexible", -0.3, 0.4)]
    assert choice(unsure, values) == "nothing"
    # An infinite NLL cannot be recommended ...
    assert choice([remedy("flexible", -0.3, 0.01, "brier")], values) == "nothing"
    # ... unless doing nothing has one too, and all are compared by the Brier score.
    infinite = losses(nothing=float("inf"), simple=-0.3)
    infinite["nothing"] = (infinite["nothing"][0], losses(x=0)["x"][0])
    assert choice([remedy("simple", -0.3, 0.01, "brier")], infinite) == "simple"


def test_impossible_labels_are_compared_by_the_brier_score():
    predictions = single(sharpness=2.0, examples=400)
    predictions.logits[0, 0, predictions.labels[0]] = -torch.inf
    comparison = compare(predictions)
    assert comparison.remedies[0].nll == float("inf")
    assert {r.difference_of for r in comparison.remedies} == {"brier"}
    assert all(r.difference.high < float("inf") for r in comparison.remedies)


def test_three_examples_have_a_fold_each():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        comparison = compare(signals(examples=3))
    assert comparison.held_out.isfinite().all()


def test_advice_agrees_with_the_verdict(sharp):
    gaps = torch.tensor(
        [[0.1, 0.0, -0.1, torch.nan], [-0.1, -0.1, -0.1, torch.nan], [0.1, 0.1, -0.1, torch.nan]]
    )
    _, comparison = sharp
    for verdict in (
        "over-confident",
        "under-confident by pooling",
        "under-confident",
        "mixed",
        "inconclusive",
    ):
        camixup = advise_camixup(verdict, 2, gaps)
        assert not camixup.applies
        texts = advise(verdict, comparison, camixup)
        assert len(texts) == 1
        assert "Calibrate with temperature" in texts[0]
        assert "CAMixup" not in texts[0]
    camixup = advise_camixup("compounding under-confidence", 2, gaps)
    assert (camixup.applies, camixup.mixed_by_pool, camixup.mixed_by_members) == (True, 2, 2.0)
    texts = advise("compounding under-confidence", comparison, camixup)
    assert "networks" in texts[1]
    assert "2 of 3" in texts[1]
    assert not advise_camixup("compounding under-confidence", 1, gaps[:2]).applies
    alone = compare(single(examples=100), "calibrated")
    assert advise("calibrated", alone, advise_camixup("calibrated", 1, gaps[:2])) == (
        "Leave it as it is: it is calibrated within the tolerance.",
    )
    for verdict, words in (
        ("inconclusive", "Audit more examples"),
        ("over-confident", "No calibrator surely"),
    ):
        assert words in advise(verdict, alone, advise_camixup(verdict, 1, gaps[:2]))[0]


def test_the_temperature_is_that_of_all_examples():
    predictions = signals(members=2, examples=300)
    expected = fit_temperature(predictions.logits, predictions.labels).temperature
    assert compare(predictions).temperature == pytest.approx(expected, rel=1e-5)


def test_predictions_are_left_as_they_are():
    predictions = signals(members=2, examples=60)
    before = Predictions(predictions.logits.clone(), predictions.labels.clone())
    compare(predictions)
    assert torch.equal(before.logits, predictions.logits)
    assert torch.equal(before.labels, predictions.labels)
