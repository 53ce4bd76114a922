import math

import numpy as np
import pytest
import torch

from calmix import metrics
from calmix.predictions import Predictions, pool
from calmix.study.subsets import MAX_SUBSETS, CompoundingLaw, subset_scores, subsets
from tests.fabricate import random_predictions


def test_the_whole_and_single_members_are_as_the_metrics_have_them():
    predictions = random_predictions(members=3, size=300)
    scores = subset_scores(predictions)
    assert scores.shape == (4, 3)
    for column, groups in ((0, [[0], [1], [2]]), (1, [[0, 1], [0, 2], [1, 2]]), (2, [[0, 1, 2]])):
        probs = [pool(predictions.logits[group].double()) for group in groups]
        for row, metric in enumerate((metrics.accuracy, metrics.ece, metrics.gap, metrics.nll)):
            expected = np.mean([metric(each, predictions.labels) for each in probs])
            assert scores[row, column] == pytest.approx(expected, abs=1e-12)


def test_many_members_are_sampled_evenly():
    chosen = subsets(20, 5)
    assert len(chosen) == MAX_SUBSETS
    assert all(len(set(subset)) == 5 for subset in chosen)
    counts = np.bincount([k for subset in chosen for k in subset])
    assert counts.max() - counts.min() <= 1
    assert chosen == subsets(20, 5)
    assert len(subsets(8, 4)) == math.comb(8, 4)


def test_the_law_is_recovered():
    law = CompoundingLaw(-0.02, 0.06)
    gaps = np.array([law(m) for m in range(1, 9)])
    fitted = CompoundingLaw.fit(gaps)
    assert (fitted.one, fitted.infinite) == (pytest.approx(-0.02), pytest.approx(0.06))
    assert CompoundingLaw.from_two(law(1), law(2))(8) == pytest.approx(law(8))


def test_the_law_forecasts_exchangeable_members():
    """Small spread around shared logits: what the law assumes to second order."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(5, (4000,), generator=draw)
    shared = 2 * torch.eye(5)[labels] + torch.randn(4000, 5, generator=draw)
    members = shared + 0.4 * torch.randn(8, 4000, 5, generator=draw)
    gaps = subset_scores(Predictions(members, labels))[2]
    assert gaps[7] > gaps[0] + 0.01
    assert CompoundingLaw.from_two(gaps[0], gaps[1])(8) == pytest.approx(gaps[7], abs=0.003)
