import numpy as np
import torch

from calmix.auditing.groups import group_gaps
from tests.auditing.ensembles import calibrated_groups


def test_groups_come_worst_first_with_their_direction():
    size = 1000
    confidence = torch.full((3 * size,), 0.8, dtype=torch.float64)
    hit = torch.zeros(3 * size, dtype=torch.float64)
    hit[:810] = 1  # 81 %
    hit[size : size + 950] = 1  # 95 %: under-confident by 15 points
    hit[2 * size : 2 * size + 500] = 1  # 50 %: over-confident by 30 points
    group = torch.arange(3).repeat_interleave(size)
    fine, under, over = "fine", "under", "over"
    gaps = group_gaps(confidence, hit, group, [fine, under, over, "absent"])
    assert [g.name for g in gaps] == [over, under, fine]
    assert [g.direction for g in gaps] == ["over-confident", "under-confident", "unclear"]
    np.testing.assert_allclose([g.gap.value for g in gaps], [-0.3, 0.15, 0.01])
    assert [g.examples for g in gaps] == [size] * 3
    np.testing.assert_allclose(gaps[0].accuracy, 0.5)


def test_a_large_gap_of_few_examples_is_not_worse_than_a_sure_one():
    confidence = torch.full((1003,), 0.6, dtype=torch.float64)
    hit = torch.ones(1003, dtype=torch.float64)
    hit[500:1000] = 0
    hit[1000:] = 0
    group = torch.tensor([0] * 1000 + [1] * 3)
    assert [g.name for g in group_gaps(confidence, hit, group, ["many", "few"])] == ["many", "few"]


def test_among_many_calibrated_groups_one_is_rarely_accused():
    accused = 0
    for seed in range(200):
        confidence, hit, group = calibrated_groups(50, 100, seed=seed)
        accused += any(g.direction != "unclear" for g in group_gaps(confidence, hit, group, list("x" * 50)))
    assert accused <= 20  # 10 expected; uncorrected intervals would accuse one nearly always
