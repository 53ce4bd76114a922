import numpy as np
import pytest
import torch
from scipy.special import softmax

from calmix import InputError, fit_conformal
from tests.calibrate.test_joint import draw_labels

NINE = np.log([[[p, 1 - p] for p in np.arange(1, 10) / 10]])  # scores of label 0: 0.9, 0.8, ..., 0.1


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [(0.1, 0.9), (0.2, 0.8), (0.3, 0.7), (0.25, 0.8), (0.9, 0.1), (0.95, 0.1)],  # rank ceil(10 (1 - alpha))
)
def test_rank_by_hand(alpha, expected):
    assert fit_conformal(NINE, np.zeros(9, int), alpha=alpha).threshold == pytest.approx(expected)


def test_all_classes_where_the_rank_exceeds_the_examples():
    sets = fit_conformal(NINE, np.zeros(9, int), alpha=0.09)
    assert sets.threshold == np.inf
    assert sets(NINE).all()


def test_aps_by_hand():
    logits = np.log([[[0.5, 0.3, 0.2], [0.6, 0.1, 0.3], [0.2, 0.7, 0.1], [0.4, 0.35, 0.25]]])
    labels = np.array([1, 2, 1, 0])  # scores: 0.8, 0.9, 0.7, 0.4
    sets = fit_conformal(logits, labels, alpha=0.4, score="aps")
    assert sets.threshold == pytest.approx(0.8)
    new = np.log([[[0.45, 0.3, 0.25], [0.1, 0.2, 0.7], [0.05, 0.9, 0.05]]])
    assert sets(new).tolist() == [[True, True, False], [False, False, True], [False, False, False]]


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_coverage_in_simulation(score):
    draw = np.random.default_rng(0)
    covered = []
    for _ in range(200):
        logits = draw.normal(size=(2, 250, 5))
        labels = draw_labels(draw, softmax(2 * logits.mean(0), 1))  # not calibrated
        sets = fit_conformal(logits[:, :49], labels[:49], alpha=0.2, score=score)
        covered.append(sets(logits[:, 49:])[np.arange(201), labels[49:]].mean())
    error = np.std(covered) / np.sqrt(len(covered))
    assert np.mean(covered) >= 0.8 - 3 * error
    assert error < 0.01
    if score == "lac":  # without ties it is exact: 40 of 50 ranks
        assert np.mean(covered) <= 0.8 + 3 * error


def test_exactly_the_rank_is_covered_on_the_data_of_the_fit():
    draw = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(3, 99, 4, generator=draw), torch.randint(4, (99,), generator=draw)
    inside = fit_conformal(logits, labels, alpha=0.1)(logits)
    assert inside.dtype == torch.bool
    assert inside[torch.arange(99), labels].sum() == 90


@pytest.mark.parametrize("alpha", [0, 1, -0.1, float("nan"), "0.1", True])
def test_alpha_outside_raises(alpha):
    with pytest.raises(InputError, match="alpha is"):
        fit_conformal(NINE, np.zeros(9, int), alpha=alpha)


def test_unknown_score_raises():
    with pytest.raises(InputError, match="did you mean 'aps'"):
        fit_conformal(NINE, np.zeros(9, int), score="apss")
