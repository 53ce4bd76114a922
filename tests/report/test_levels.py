import pytest
import torch

from calmix.auditing.reliability import reliability_bins
from calmix.report.levels import Level, choose_level, level_sentence, merge_levels


def test_levels_hold_every_example_once_and_keep_the_means():
    draw = torch.Generator().manual_seed(0)
    confidence = 0.3 + 0.7 * torch.rand(3000, generator=draw, dtype=torch.float64)
    hit = torch.bernoulli(confidence, generator=draw)
    levels = merge_levels(reliability_bins(confidence, hit))
    assert 1 < len(levels) <= 5
    assert sum(level.examples for level in levels) == 3000
    assert sum(level.examples * level.expected for level in levels) == pytest.approx(float(confidence.sum()))
    assert sum(level.examples * level.actual for level in levels) == pytest.approx(float(hit.sum()))
    assert [level.expected for level in levels] == sorted(level.expected for level in levels)
    assert all(level.kind == "unsure" for level in levels)  # calibrated
    assert merge_levels(reliability_bins(confidence, torch.ones_like(hit)))[0].kind == "under"


OVER, UNDER, MANY, FEW = (
    Level("over", 0.9, 0.7, 200),
    Level("under", 0.5, 0.8, 150),
    Level("many", 0.8, 0.81, 5000),
    Level("few", 0.6, 0.0, 5),
)


@pytest.mark.parametrize(
    ("verdict", "level"),
    [
        ("calibrated", MANY),
        ("inconclusive", MANY),
        ("over-confident", OVER),
        ("under-confident", MANY),
        ("compounding under-confidence", MANY),
        ("mixed", MANY),
    ],
)
def test_the_level_of_the_sentence_goes_with_the_verdict(verdict, level):
    assert choose_level([OVER, UNDER, MANY, FEW], verdict) is level


def test_an_error_counts_by_its_examples_and_direction():
    assert choose_level([OVER, UNDER], "under-confident by pooling") is UNDER
    assert choose_level([OVER, UNDER], "mixed") is UNDER
    assert choose_level([FEW], "over-confident") is FEW


@pytest.mark.parametrize(
    ("actual", "words"), [(1.0, "100 were"), (0.998, "more than 99 were"), (0.001, "less than 1 were")]
)
def test_all_and_none_are_said_only_where_they_are_exact(actual, words):
    assert words in level_sentence(Level("", 0.8, actual, 1000))


def test_a_class_is_named():
    text = level_sentence(Level("", 0.3, 0.4, 1000), outcome="sick")
    assert text == "Of 100 cases with a probability of about 30 % for sick, 40 were sick."
